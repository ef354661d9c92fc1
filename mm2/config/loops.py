"""Flows of the file that would copy topics round and round are refused before they run."""

from __future__ import annotations

from collections.abc import Iterable

from mm2.config.class_names import TOPIC_FILTER
from mm2.config.problems import ProblemLog
from mm2.config.properties import Entry
from mm2.config.settings import FlowSettings
from mm2.config.values import Properties
from mm2.core.loop_check import CheckedFlow, Loop, find_loops
from mm2.core.names import Flow
from mm2.core.replication_filter import ReplicationFilter


def check_loops(file: Properties, flows: Iterable[FlowSettings], problems: ProblemLog) -> None:
    """Look at the enabled ones of ``flows``, which are all of the file's: a circle may run over several nodes. Only
    what certainly goes round is an error; a circle that cannot be judged is a warning."""
    for loop in find_loops(_checked(flow) for flow in flows if flow.enabled):
        first, *others = loop.flows
        lines = ", ".join(f"{flow} in line {_enabling(file, flow).line}" for flow in others)
        tell = problems.error if isinstance(loop, Loop) else problems.warning
        tell(f"{loop}. This line enables {first}; see {lines}.", at=_enabling(file, first))


def _checked(flow: FlowSettings) -> CheckedFlow:
    source = flow.source
    built_in = source.topic_filter_class in TOPIC_FILTER.built_in
    return CheckedFlow(
        rules=ReplicationFilter(
            flow=flow.flow,
            policy=flow.policy,
            selects=flow.topic_filter,
            replicate_heartbeats=source.heartbeats_replication_enabled,
        ),
        topics=source.topics if built_in else (source.topic_filter_class,),
    )


def _enabling(file: Properties, flow: Flow) -> Entry:
    """The line that enables ``flow``; where the key stands alone it enables all."""
    key = f"{flow}.enabled"
    entry = file[key if key in file else "enabled"].entry
    assert entry is not None
    return entry
