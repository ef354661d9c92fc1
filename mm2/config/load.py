"""The whole way from a file to settings, with every problem on it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mm2.config import keys, known, pairs, providers
from mm2.config.clients import ClientReader
from mm2.config.electing import read_elections
from mm2.config.flows import FlowProperties, read_flow
from mm2.config.java_types import read_list
from mm2.config.listening import read_listening
from mm2.config.loops import check_loops
from mm2.config.node_keys import OwnSettings, RestSettings
from mm2.config.one_cluster import check_one_cluster
from mm2.config.problems import ProblemLog
from mm2.config.properties import Entry, read_file
from mm2.config.settings import FlowSettings, Loaded, NodeSettings
from mm2.config.spark import check_spark
from mm2.config.values import Properties, Value
from mm2.core.names import Flow
from mm2.core.own_policy import OwnPolicy

PUBLIC_PATHS = ("docs", "flows", "health", "metrics", "openapi.json")
"""First segments of the node's public REST paths (contract: REST)."""

_TOPIC_SIGNS = re.compile("[a-zA-Z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file that could be read: its properties, references replaced, and the flows a node has by it.

    Where an error leaves no flow to run, ``flows`` are those there might have been, so that they are judged all the
    same. ``elsewhere``: the file's other flows, which end in clusters that other nodes serve. ``findings``: what is to
    say about single lines, also what only explanations show.
    """

    properties: Properties
    clusters: Entry
    aliases: tuple[str, ...]
    flows: tuple[Flow, ...]
    elsewhere: tuple[Flow, ...]
    findings: tuple[known.Finding, ...]


def load(path: Path, clusters: Sequence[str] = ()) -> Loaded:
    """Read ``path`` for a node whose flows end in one of ``clusters``, or anywhere when that is empty.

    Never raises for what a user wrote: everything that is wrong is among the problems, all at once.
    """
    return load_file(path, clusters)[0]


def load_file(path: Path, clusters: Sequence[str] = ()) -> tuple[Loaded, File | None]:
    """The same, with the file itself for who wants to know where settings come from."""
    problems = ProblemLog(str(path))
    file = read(path, clusters, problems)
    settings = None
    if file is not None:
        settings = _node(path, file, problems)
        known.report(file.findings, problems)
    return Loaded(settings=None if problems.failed else settings, problems=problems.in_order()), file


def read(path: Path, clusters: Sequence[str], problems: ProblemLog) -> File | None:
    """The file's properties and which flows a node has; None when there is not even a list of clusters."""
    raw = read_file(path, problems)
    if raw is None:
        return None
    entries = providers.resolve(raw, problems)
    line = entries.get("clusters")
    if line is not None and line.broken:
        return None
    if line is None:
        problems.error("is missing, so there is nothing to replicate between. Add clusters = A, B.", key="clusters")
        return None
    properties = {key: Value.of(entry) for key, entry in entries.items()}
    named = read_list(line.value)
    aliases = tuple(dict.fromkeys(filter(None, named)))
    if "" in named:
        problems.warning("has a comma too many, which names no cluster. Remove it.", at=line)
    _check_aliases(aliases, line, properties, problems)
    flows, elsewhere = _flows(properties, aliases, clusters, line, problems)
    return File(
        properties=properties,
        clusters=line,
        aliases=aliases,
        flows=flows,
        elsewhere=elsewhere,
        findings=tuple(known.findings(entries, aliases)),
    )


def _node(path: Path, file: File, problems: ProblemLog) -> NodeSettings:
    reader = ClientReader(clusters=file.clusters, problems=problems)
    flows = tuple(read_flow(FlowProperties.of(file.properties, flow), flow, reader, path.parent) for flow in file.flows)
    _check_policies(flows, file.clusters, problems)
    if not problems.failed:  # what is replaced by a default would be judged otherwise
        check_loops(file.properties, (*flows, *_elsewhere(path, file)), problems)
        check_one_cluster(file.properties, flows, problems)
    own = keys.read(OwnSettings, file.properties, problems)
    rest = keys.read(RestSettings, file.properties, problems)
    _check_admin(own, rest, file.properties, problems)
    listening = read_listening(rest, file.properties, problems)
    check_spark(file.properties, rest, listening, flows, problems)
    return NodeSettings(
        path=path,
        clusters=file.aliases,
        flows=read_elections(flows, file.properties, problems),
        rest=rest,
        listening=listening,
        own=own,
        spark={name: value.text for name, value in file.properties.items() if name.startswith("spark.")},
    )


def _check_admin(own: OwnSettings, rest: RestSettings, properties: Properties, problems: ProblemLog) -> None:
    if not own.rest_admin:
        return
    if own.rest_admin_token is None and "mm2.rest.admin.token" not in properties:
        properties["mm2.rest.admin"].refuse(
            problems,
            "needs mm2.rest.admin.token, which callers must know: without it everybody who reaches the listener could "
            "stop replication. Add it.",
        )
    if not rest.listeners and "listeners" not in properties and not rest.internal_rest:
        properties["mm2.rest.admin"].warn(problems, "has no effect without listeners. Add listeners.")


def _elsewhere(path: Path, file: File) -> Iterator[FlowSettings]:
    """The file's other flows, but for those that something is wrong with: their own nodes say so."""
    for flow in file.elsewhere:
        problems = ProblemLog(str(path))
        reader = ClientReader(clusters=file.clusters, problems=problems)
        settings = read_flow(FlowProperties.of(file.properties, flow), flow, reader, path.parent)
        if not problems.failed:
            yield settings


def _check_aliases(aliases: Sequence[str], line: Entry, properties: Properties, problems: ProblemLog) -> None:
    if not aliases:
        problems.error("must name the clusters to replicate between, for example A, B.", at=line)
    for alias in aliases:
        if not _TOPIC_SIGNS.fullmatch(alias):
            problems.error(
                f"must have aliases of letters, digits and . _ - only: {alias} is part of topic names, and Kafka "
                "allows no other signs there. Choose another alias.",
                at=line,
            )
        if alias in PUBLIC_PATHS and "listeners" in properties:
            problems.error(
                f"must not have {alias} for an alias while listeners is set: /{alias} is a page of the node's own. "
                "Choose another alias, or remove listeners.",
                at=line,
            )


def _flows(
    properties: Properties, aliases: Sequence[str], clusters: Sequence[str], line: Entry, problems: ProblemLog
) -> tuple[tuple[Flow, ...], tuple[Flow, ...]]:
    """Those of a node that serves ``clusters``, and the others."""
    pairs.check_switches(properties, aliases, problems)
    flows = pairs.flows(properties, aliases)
    if not flows:
        if aliases:
            problems.error(_nothing_enabled(aliases), at=line)
        return pairs.possible(aliases), ()
    _check_usage(flows, aliases, line, problems)
    _check_command_line(clusters, aliases, problems)
    chosen = tuple(flow for flow in flows if not clusters or flow.target in clusters)
    if not chosen:
        problems.error(
            f"leaves no flow to run: none ends in {', '.join(clusters)}. The file has {', '.join(map(str, flows))}.",
            key="--clusters",
        )
    return chosen or flows, tuple(flow for flow in flows if flow not in chosen)


def _check_usage(flows: Sequence[Flow], aliases: Sequence[str], line: Entry, problems: ProblemLog) -> None:
    for alias in aliases:
        if not any(alias in (flow.source, flow.target) for flow in flows):
            problems.warning(f"names {alias}, which no flow begins or ends in. Enable a flow, or take it out.", at=line)


def _check_command_line(clusters: Sequence[str], aliases: Sequence[str], problems: ProblemLog) -> None:
    for alias in clusters:
        if alias not in aliases:
            problems.warning(
                f"names {alias}, which is not in clusters, so no flow ends there. "
                + ("Part aliases by blanks, not by commas." if "," in alias else "Correct the command line."),
                key="--clusters",
            )


def _nothing_enabled(aliases: Sequence[str]) -> str:
    if len(aliases) == 1:
        return "names one cluster, which has nothing to replicate to. Name at least two, for example A, B."
    return f"describes no flow to run. Add {aliases[0]}->{aliases[1]}.enabled = true."


def _check_policies(flows: Sequence[FlowSettings], line: Entry, problems: ProblemLog) -> None:
    for flow in flows:
        for alias in (flow.flow.source, flow.flow.target):
            _check_policy(flow, alias, line, problems)


def _check_policy(flow: FlowSettings, alias: str, line: Entry, problems: ProblemLog) -> None:
    separator = flow.source.replication_policy_separator
    if isinstance(flow.policy, OwnPolicy):
        return  # it may keep the origin of a topic somewhere else than in the name
    if flow.policy.alias_breaks_names(alias):
        problems.error(
            f"must not have {alias} for an alias: its remote topics, such as "
            f"{flow.policy.format_remote_topic(alias, 'orders')}, cannot be told from those of another cluster where "
            f"{separator or 'nothing'} parts alias and topic. Choose another alias or replication.policy.separator.",
            at=line,
        )
    elif flow.policy.alias_breaks_heartbeats(alias):
        problems.warning(
            f"has {alias} for an alias, whose heartbeats cannot be told from those of another cluster where "
            f"{separator or 'nothing'} parts alias and topic. Choose another alias or replication.policy.separator.",
            at=line,
        )
