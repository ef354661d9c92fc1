"""Loads a file into settings and collects its problems.

Aliases with the same brokers are one of them: usually a line that was copied and not changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mm2.config import flow_pairs
from mm2.config.checks import foreign_files, unknown_keys
from mm2.config.checks.aliases import check_alias_characters, check_ambiguous_aliases, check_shared_aliases
from mm2.config.checks.exposure import check_exposure
from mm2.config.checks.foreign.file_types import without_byte_order_mark
from mm2.config.checks.loops import check_loops
from mm2.config.checks.near_misses import NearMissRule
from mm2.config.checks.query_topics import check_query_topics
from mm2.config.checks.spark import check_spark, check_threads
from mm2.config.checks.unused_security import check_unused_security
from mm2.config.clients.client_reader import ClientReader
from mm2.config.flows import FlowProperties, read_flow
from mm2.config.grammar import providers
from mm2.config.grammar.comments import comment_fix, no_comment, without_comment
from mm2.config.grammar.java_types import read_list
from mm2.config.grammar.problems import Problem, ProblemLog
from mm2.config.grammar.properties import Entry, parse, read_content
from mm2.config.grammar.values import Properties, Value
from mm2.config.keys import declaration
from mm2.config.keys.election_keys import read_elections
from mm2.config.keys.node_keys import FileSettings, OwnSettings, RestSettings, UnknownKeys
from mm2.config.security.listeners import read_listening
from mm2.config.security.rest_tokens import check_access, read_tokens_file
from mm2.config.settings import FlowSettings, NodeSettings
from mm2.core.naming.names import Flow


def check_one_cluster(file: Properties, flows: Iterable[FlowSettings], problems: ProblemLog) -> None:
    """Add a warning for each pair of aliases that share a broker; it can be intended.

    Only addresses are compared here. A running node compares the cluster IDs.
    """
    pairs = dict.fromkeys(tuple(sorted((one.flow.source, one.flow.target))) for one in flows if one.enabled)
    for pair in pairs:
        keys = [f"{alias}.bootstrap.servers" for alias in pair]
        if not all(key in file for key in keys):
            continue
        first, second = sorted((file[key] for key in keys), key=_line)
        if both := sorted(_servers(first) & _servers(second)):
            second.warn(
                problems,
                f"{both[0]} is in line {_line(first)} too, so {' and '.join(pair)} are the same cluster",
                f"correct line {_line(first)} or {_line(second)}, unless this is intended",
            )


def _servers(value: Value) -> set[str]:
    return {server.lower() for server in read_list(value.text)}


def _line(value: Value) -> int:
    assert value.entry is not None
    return value.entry.line


PUBLIC_PATHS = ("docs", "flows", "health", "metrics", "node", "openapi.json")
"""First segments of the node's public REST paths (docs/reference/rest.md)."""

NO_LINES: Mapping[str, str] = {}

_SEPARATORS = re.compile(r"[;\s]+")
"""What users write between aliases instead of a comma."""

_TOPIC_CHARACTERS = re.compile("[a-zA-Z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """``settings`` is None if ``problems`` contain an error. ``of_node`` are the same, but not None if all errors are
    temporary: a node starts with them, and the flows concerned wait. ``near_misses``: lines, key and value, that are
    errors unless Java ran the flows with them (`NearMissRule`)."""

    settings: NodeSettings | None
    problems: tuple[Problem, ...]
    of_node: NodeSettings | None
    near_misses: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file that could be parsed: its properties, with references replaced, and the flows of a node.

    If an error leaves no flow to run, ``flows`` are all possible ones, so that their keys are checked too.
    ``elsewhere``: the file's other flows, whose targets other nodes serve. ``findings``: remarks about single lines,
    including those that only `mm2 explain` shows.
    """

    properties: Properties
    clusters: Entry
    aliases: tuple[str, ...]
    flows: tuple[Flow, ...]
    elsewhere: tuple[Flow, ...]
    findings: tuple[unknown_keys.Finding, ...]


def load(path: Path, clusters: Sequence[str] = ()) -> Loaded:
    """Read ``path`` for a node whose flows have one of ``clusters`` as target; empty: all flows.

    Never raises for the content of the file: all its problems are returned together.
    """
    return load_file(path, clusters)[0]


def load_file(
    path: Path, clusters: Sequence[str] = (), *, accepted: Mapping[str, str] = NO_LINES
) -> tuple[Loaded, File | None]:
    """Return the same and the file, which contains the origin of the settings. ``accepted``: as in `NearMissRule`."""
    problems = ProblemLog(str(path))
    file = read(path, clusters, problems)
    settings = None
    refused: Mapping[str, str] = NO_LINES
    if file is not None:
        mode = declaration.read(FileSettings, file.properties, problems).unknown_keys
        near_misses = NearMissRule(UnknownKeys(mode), accepted)
        settings = _node(path, file, problems, near_misses)
        unknown_keys.report(file.findings, problems, near_misses)
        refused = near_misses.refused
    loaded = Loaded(
        settings=None if problems.failed else settings,
        problems=problems.in_order(),
        of_node=None if problems.prevents_start else settings,
        near_misses=refused,
    )
    return loaded, file


def read(path: Path, clusters: Sequence[str], problems: ProblemLog) -> File | None:
    """Return the file's properties and the flows of the node; None without a list of clusters."""
    content = read_content(path, problems)
    if content is None or foreign_files.report(content, problems):
        return None
    raw = parse(without_byte_order_mark(content, problems), problems)
    entries = providers.resolve(raw, problems)
    line = entries.get("clusters")
    if line is not None and line.broken:
        return None
    if line is None:
        problems.error(
            "missing, so there is nothing to replicate",
            "add the aliases of your clusters:\nclusters = A, B",
            key="clusters",
        )
        return None
    properties = {key: Value.of(entry) for key, entry in entries.items()}
    named = read_list(without_comment(line.value))
    aliases = tuple(dict.fromkeys(filter(None, named)))
    if "" in named:
        problems.warning("contains an empty element", f"write clusters = {', '.join(aliases)}", at=line)
    aliases = _split_aliases(aliases, line, problems)
    _check_aliases(aliases, line, properties, problems)
    flows, elsewhere = _flows(properties, aliases, clusters, line, problems)
    return File(
        properties=properties,
        clusters=line,
        aliases=aliases,
        flows=flows,
        elsewhere=elsewhere,
        findings=tuple(unknown_keys.findings(entries, aliases)),
    )


def _node(path: Path, file: File, problems: ProblemLog, near_misses: NearMissRule) -> NodeSettings:
    reader = ClientReader(clusters=file.clusters, problems=problems)
    flows = tuple(read_flow(FlowProperties.of(file.properties, flow), flow, reader, path.parent) for flow in file.flows)
    elsewhere = tuple(_elsewhere(path, file))
    check_alias_characters(file.properties, flows, problems)
    check_ambiguous_aliases(file.properties, file.clusters, (*flows, *elsewhere), problems)
    if not problems.prevents_start:  # an invalid value is replaced by its default, which must not be judged
        _check_enabled(flows, file, problems)
        check_loops(file.properties, (*flows, *elsewhere), problems)
        check_shared_aliases(file.properties, (*flows, *elsewhere), problems)
        check_one_cluster(file.properties, flows, problems)
        check_query_topics(file.properties, (*flows, *elsewhere), problems)
    own = declaration.read(OwnSettings, file.properties, problems)
    rest = declaration.read(RestSettings, file.properties, problems)
    tokens = read_tokens_file(file.properties, path.parent, problems)
    check_access(own, rest, tokens, file.properties, problems)
    check_exposure(file.properties, own, rest, problems)
    listening = read_listening(rest, file.properties, problems)
    check_spark(file.properties, own, rest, flows, problems)
    check_threads(file.properties, own, flows, problems)
    every_flow = (*file.flows, *file.elsewhere)
    check_unused_security(file.properties, every_flow, problems, near_misses, https=listening.peers is not None)
    spark = {name: value for name, value in file.properties.items() if name.startswith("spark.")}
    return NodeSettings(
        path=path,
        clusters=file.aliases,
        flows=read_elections(
            tuple(replace(one, takes_commands=own.rest_admin) for one in flows), file.properties, problems
        ),
        rest=rest,
        listening=listening,
        own=own,
        spark={name: value.text for name, value in spark.items()},
        hidden_spark=frozenset(name for name, value in spark.items() if value.is_hidden),
        credentials=reader.credentials,
        tokens=tokens,
    )


def _elsewhere(path: Path, file: File) -> Iterator[FlowSettings]:
    """Return the file's other flows without those that have errors, which their own nodes report."""
    for flow in file.elsewhere:
        problems = ProblemLog(str(path))
        reader = ClientReader(clusters=file.clusters, problems=problems)
        settings = read_flow(FlowProperties.of(file.properties, flow), flow, reader, path.parent)
        if not problems.prevents_start:
            yield settings


def _split_aliases(aliases: tuple[str, ...], line: Entry, problems: ProblemLog) -> tuple[str, ...]:
    """Return ``aliases``, split at spaces and semicolons, which are an error: the rest is checked as it was meant."""
    split = tuple(dict.fromkeys(name for alias in aliases for name in _SEPARATORS.split(alias) if name))
    if split != aliases:
        problems.error("aliases must be separated by commas", f"write clusters = {', '.join(split)}", at=line)
    return split


def _check_aliases(aliases: Sequence[str], line: Entry, properties: Properties, problems: ProblemLog) -> None:
    if not aliases:
        problems.error("there is nothing to replicate", "write clusters = A, B", at=line)
    if comment := comment_fix(line):
        problems.error(no_comment(line), comment, at=line)
    for alias in aliases:
        if not _TOPIC_CHARACTERS.fullmatch(alias):
            problems.error(
                f"alias {alias} contains characters that Kafka does not allow in topic names",
                "choose an alias of letters, digits, dots, underscores and hyphens",
                at=line,
            )
        if alias in PUBLIC_PATHS and "listeners" in properties:
            problems.error(
                f"alias {alias} cannot be used with listeners: /{alias} is a REST path of the node",
                f"choose another alias than {alias}, or remove listeners",
                at=line,
            )


def _flows(
    properties: Properties, aliases: Sequence[str], clusters: Sequence[str], line: Entry, problems: ProblemLog
) -> tuple[tuple[Flow, ...], tuple[Flow, ...]]:
    """Return the flows of a node that serves ``clusters``, and the others."""
    flow_pairs.check_switches(properties, aliases, problems)
    flows = flow_pairs.flows(properties, aliases)
    if not flows:
        if aliases:
            problems.error(*_no_flow(aliases), at=line)
        return flow_pairs.possible(aliases), ()
    _check_usage(flows, aliases, line, problems)
    chosen = tuple(flow for flow in flows if not clusters or flow.target in clusters)
    if chosen:
        _check_command_line(clusters, aliases, problems)
    else:
        targets = ", ".join(dict.fromkeys(flow.target for flow in flows))
        fix = _commas_fix(clusters) or f"use one of the targets: {targets}"
        problems.error(f"no flow replicates to {' or '.join(clusters)}", fix, key="--clusters")
    return chosen or flows, tuple(flow for flow in flows if flow not in chosen)


def _check_usage(flows: Sequence[Flow], aliases: Sequence[str], line: Entry, problems: ProblemLog) -> None:
    for alias in aliases:
        if not any(alias in (flow.source, flow.target) for flow in flows):
            other = next(one for one in aliases if one != alias)
            problems.warning(
                f"cluster {alias} is not part of any flow",
                f"add {other}->{alias}.enabled = true, or the other direction, or remove {alias} from clusters",
                at=line,
            )


def _check_command_line(clusters: Sequence[str], aliases: Sequence[str], problems: ProblemLog) -> None:
    for alias in clusters:
        if alias not in aliases:
            problems.warning(
                f"cluster {alias} is not in clusters",
                _commas_fix((alias,)) or f"use one of {', '.join(aliases)}",
                key="--clusters",
            )


def _commas_fix(clusters: Sequence[str]) -> str:
    """Return the fix for aliases that are separated by commas on the command line, or an empty text."""
    joined = " ".join(clusters)
    return f"separate aliases with spaces: --clusters {joined.replace(',', ' ')}" if "," in joined else ""


def _no_flow(aliases: Sequence[str]) -> tuple[str, str]:
    """Return rule and fix for a file without flows."""
    if len(aliases) == 1:
        return "contains one cluster, so there is nothing to replicate to", f"write clusters = {aliases[0]}, B"
    return "there is no flow to run", f"add {aliases[0]}->{aliases[1]}.enabled = true"


def _check_enabled(flows: Sequence[FlowSettings], file: File, problems: ProblemLog) -> None:
    """Warn if the file enables no flow: nodes would write heartbeats only. A misspelt key is reported already."""
    elsewhere = flow_pairs.enabled(file.properties, file.elsewhere)
    enabled = elsewhere or any(flow.enabled for flow in flows)
    if not enabled and not unknown_keys.explain_no_flow(file.findings):
        source, target = file.aliases[:2]
        problems.warning("no flow is enabled, so nothing is replicated", f"add {source}->{target}.enabled = true")
