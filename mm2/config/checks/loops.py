"""Check for flows of the file that would replicate topics in a loop."""

from __future__ import annotations

from collections.abc import Iterable

from mm2.config.grammar.problems import ProblemLog
from mm2.config.grammar.properties import Entry
from mm2.config.grammar.values import Properties
from mm2.config.keys.class_keys import TOPIC_FILTER
from mm2.config.keys.connector_keys import SourceSettings
from mm2.config.settings import FlowSettings
from mm2.core.naming.loop_check import CheckedFlow, Loop, find_loops
from mm2.core.naming.names import Flow


def check_loops(file: Properties, flows: Iterable[FlowSettings], problems: ProblemLog) -> None:
    """Check the enabled ones of ``flows``, all flows of the file: a loop can involve several nodes.

    A certain loop is an error. A cycle whose patterns do not show whether they overlap is a warning.
    """
    for loop in find_loops(
        CheckedFlow(rules=flow.replication_filter, topics=_topics(flow.source)) for flow in flows if flow.enabled
    ):
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


def _topics(source: SourceSettings) -> tuple[str, ...]:
    built_in = source.topic_filter_class in TOPIC_FILTER.built_in
    return source.topics if built_in else (source.topic_filter_class,)


def _enabling(file: Properties, flow: Flow) -> Entry:
    """Return the line that enables ``flow``: its own, or the one that enables all flows."""
    key = f"{flow}.enabled"
    entry = file[key if key in file else "enabled"].entry
    assert entry is not None
    return entry
