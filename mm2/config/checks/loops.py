"""Check for flows of the file that would replicate topics in a loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mm2.config.checks.aliases import alias_entry
from mm2.config.grammar.problems import ProblemLog
from mm2.config.grammar.properties import Entry
from mm2.config.grammar.values import Properties
from mm2.config.keys.class_keys import TOPIC_FILTER
from mm2.config.keys.connector_keys import SourceSettings
from mm2.config.settings import FlowSettings
from mm2.core.naming.internal_topics import Side
from mm2.core.naming.loop_check import CheckedFlow, Loop, PossibleLoop, find_loops
from mm2.core.naming.names import Flow


def check_loops(file: Properties, flows: Iterable[FlowSettings], problems: ProblemLog) -> None:
    """Check the enabled ones of ``flows``, all flows of the file: a loop can involve several nodes.

    A certain loop is an error. A cycle whose patterns do not show whether they overlap is a warning.
    """
    enabled = {flow.flow: flow for flow in flows if flow.enabled}
    for loop in find_loops(
        CheckedFlow(flow=flow.flow, rules=flow.replication_filter, topics=_topics(flow.source))
        for flow in enabled.values()
    ):
        if (differing := _differing_aliases(file, [enabled[flow] for flow in loop.flows])) is not None:
            _report_aliases(loop, *differing, problems)
            continue
        first, *others = loop.flows
        lines = ", ".join(f"{flow} in line {_enabling(file, flow).line}" for flow in others)
        cycle = f"{first}, enabled here, and {lines}"
        if isinstance(loop, Loop):
            problems.error(
                f"{cycle} would replicate topics such as {loop.topic} in an endless loop, because their replication "
                "policies cannot distinguish copies from originals",
                "disable one of these flows, select topics that do not overlap, or use DefaultReplicationPolicy",
                at=_enabling(file, first),
            )
        else:
            problems.warning(
                f"{cycle} form a cycle whose replication policies cannot distinguish copies from originals; a topic "
                "that belongs to all of them would be replicated in an endless loop, and it cannot be determined from "
                f"{', '.join(loop.patterns)} whether one exists",
                "make sure that no topic is selected by all of these flows",
                at=_enabling(file, first),
            )


def _differing_aliases(file: Properties, circle: Sequence[FlowSettings]) -> tuple[Entry, str] | None:
    """Return the line by which a cluster of ``circle`` has two aliases, and which; None if no line does that."""
    for flow, following in zip(circle, (*circle[1:], circle[0]), strict=True):
        as_target, as_source = flow.aliases.target, following.aliases.source
        if as_target != as_source:
            entry = alias_entry(file, flow.flow, Side.TARGET) or alias_entry(file, following.flow, Side.SOURCE)
            assert entry is not None
            return entry, (
                f"cluster {flow.flow.target} is {as_target or 'empty'} for {flow.flow}, but {as_source or 'empty'} for"
                f" {following.flow}"
            )
    return None


def _report_aliases(loop: Loop | PossibleLoop, entry: Entry, aliases: str, problems: ProblemLog) -> None:
    flows = ", ".join(map(str, loop.flows))
    fix = "remove the line, so that a cluster has one alias in topic names"
    if isinstance(loop, Loop):
        problems.error(
            f"{flows} would replicate topics such as {loop.topic} in an endless loop: {aliases}", fix, at=entry
        )
    else:
        patterns = ", ".join(loop.patterns)
        problems.warning(
            f"{flows} would replicate a topic that belongs to all of them in an endless loop: {aliases}; it cannot be "
            f"determined from {patterns} whether one exists",
            fix,
            at=entry,
        )


def _topics(source: SourceSettings) -> tuple[str, ...]:
    built_in = source.topic_filter_class in TOPIC_FILTER.built_in
    return source.topics if built_in else (source.topic_filter_class,)


def _enabling(file: Properties, flow: Flow) -> Entry:
    """Return the line that enables ``flow``: its own, or the one that enables all flows."""
    key = f"{flow}.enabled"
    entry = file[key if key in file else "enabled"].entry
    assert entry is not None
    return entry
