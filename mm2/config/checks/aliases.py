"""Checks of the aliases in topic names: those of the clusters, source.cluster.alias and target.cluster.alias."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from mm2.config.clients.java_derivation import connector_properties
from mm2.config.grammar.problems import ProblemLog
from mm2.config.grammar.properties import Entry
from mm2.config.grammar.values import Properties
from mm2.config.keys.connector_keys import SOURCE_ALIAS, TARGET_ALIAS
from mm2.config.settings import FlowSettings
from mm2.core.naming.guarded_policy import GuardedPolicy
from mm2.core.naming.internal_topics import Side
from mm2.core.naming.names import Flow
from mm2.core.policies import ReplicationPolicy

_CHARACTERS = re.compile("[A-Za-z0-9._-]*")

ALIAS_KEYS = {Side.SOURCE: SOURCE_ALIAS, Side.TARGET: TARGET_ALIAS}


def alias_entry(file: Properties, flow: Flow, side: Side) -> Entry | None:
    """Return the line that sets the alias of one side of ``flow``; None: it is the cluster's own."""
    value = connector_properties(file, flow).get(ALIAS_KEYS[side])
    return None if value is None else value.entry


def check_alias_characters(file: Properties, flows: Iterable[FlowSettings], problems: ProblemLog) -> None:
    """Check that the lines which set an alias contain what can be part of a topic name."""
    for flow in flows:
        for side in Side:
            if _CHARACTERS.fullmatch(_alias(flow.aliases, side)):
                continue
            if (entry := alias_entry(file, flow.flow, side)) is not None:
                problems.error(
                    "must contain only letters, digits, dots, underscores and hyphens, like topic names",
                    "correct the value, or remove the line",
                    at=entry,
                )


def check_ambiguous_aliases(
    file: Properties, clusters: Entry, flows: Sequence[FlowSettings], problems: ProblemLog
) -> None:
    """Check that the source of a remote topic can be derived from its name where a flow has to know it.

    ``flows`` are all flows of the file, ``clusters`` its list of aliases. An ambiguous name is an error if a flow
    replicates from a cluster with such remote topics: it may copy them in a loop, or leave them out. Otherwise, as in
    one-way replication, it is a warning.
    """
    found: dict[tuple[str, ReplicationPolicy], tuple[bool, Entry, FlowSettings]] = {}
    sources = {flow.flow.source for flow in flows if flow.enabled}
    for flow in flows:
        if isinstance(flow.policy, GuardedPolicy):
            continue  # a custom policy does not have to derive the source of a topic from its name
        for side in Side:
            alias = _alias(flow.aliases, side)
            is_error = flow.enabled and side is Side.SOURCE and flow.flow.target in sources
            known = found.get((alias, flow.policy))
            if known is None or is_error > known[0]:
                found[alias, flow.policy] = is_error, alias_entry(file, flow.flow, side) or clusters, flow
    for (alias, _), (is_error, entry, flow) in found.items():
        _check_alias(alias, flow, entry, problems, is_error=is_error)


def _check_alias(alias: str, flow: FlowSettings, entry: Entry, problems: ProblemLog, *, is_error: bool) -> None:
    separator, policy = flow.source.replication_policy_separator, flow.policy
    between = f"{separator} separates" if separator else "nothing separates"
    fix = f"choose another alias than {alias}, or another replication.policy.separator"
    remote = policy.format_remote_topic(alias, "orders")
    if not alias and not separator:
        if alias == flow.aliases.source and remote == "orders":
            problems.warning(
                "with an empty alias and an empty separator, remote topics keep their names, as in Java, so that copies"
                " cannot be distinguished from originals",
                "make sure that nothing replicates these topics back, and use IdentityReplicationPolicy for new flows",
                at=entry,
            )
    elif policy.alias_breaks_names(alias):
        ambiguous = f"the source of remote topics of {alias}, such as {remote}, is ambiguous: {between} alias and topic"
        if is_error:
            problems.error(f"{ambiguous}, and a flow replicates from {flow.flow.target}", fix, at=entry)
        else:
            problems.warning(f"{ambiguous}; no flow replicates from a cluster with such topics", fix, at=entry)
    elif policy.alias_breaks_heartbeats(alias):
        problems.warning(
            f"the source of the heartbeats of {alias} is ambiguous: {between} alias and topic", fix, at=entry
        )


def check_shared_aliases(file: Properties, flows: Sequence[FlowSettings], problems: ProblemLog) -> None:
    """Check that no two enabled flows write the same topics because of source.cluster.alias or target.cluster.alias.

    ``flows`` are all flows of the file. Flows into one cluster have different sources, and flows from one cluster that
    write their offset syncs there have different targets.
    """
    for side, mixed in (
        (Side.SOURCE, "remote topics, checkpoints and heartbeats"),
        (Side.TARGET, "offset syncs"),
    ):
        by_topics: dict[tuple[str, str], list[FlowSettings]] = {}
        for flow in flows:
            if flow.enabled and (side is Side.SOURCE or _writes_syncs_to_source(flow)):
                cluster = flow.flow.target if side is Side.SOURCE else flow.flow.source
                by_topics.setdefault((cluster, _alias(flow.aliases, side)), []).append(flow)
        for sharing in by_topics.values():
            if len(sharing) > 1:
                entry = next(
                    one for flow in reversed(sharing) if (one := alias_entry(file, flow.flow, side)) is not None
                )
                names = ", ".join(str(flow.flow) for flow in sharing)
                problems.error(
                    f"{names} have the same {side} alias, so their {mixed} would be mixed",
                    f"remove the line, or write {ALIAS_KEYS[side]} with different values for single flows",
                    at=entry,
                )


def _writes_syncs_to_source(flow: FlowSettings) -> bool:
    source = flow.source
    return source.emit_offset_syncs_enabled and source.offset_syncs_topic_location == Side.SOURCE


def _alias(aliases: Flow, side: Side) -> str:
    return aliases.source if side is Side.SOURCE else aliases.target
