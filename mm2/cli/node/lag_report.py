"""The partitions whose lag is shown: from a running node, or from the clusters of the file if none answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from mm2.cli.errors import CommandError, UsageError
from mm2.cli.node.node_address import node_context, node_url
from mm2.cli.node.node_client import fetch_flows, read_flows
from mm2.core.lanes.task_states import TaskState
from mm2.node.status.status_model import FlowStatus, PartitionStatus

if TYPE_CHECKING:
    from mm2.cli.node.stored_lags import StoredFlow
    from mm2.config.settings import FlowSettings

_TOPICS_UNKNOWN = (TaskState.WAITING, TaskState.FAILED)
"""A flow without topics in one of these states can have any; a RUNNING one has none."""

_AnyFlow = TypeVar("_AnyFlow", FlowStatus, "FlowSettings")

CLUSTERS_EVERY_S = 10.0
"""Between two readings of the clusters, each of which reads whole topics. Nodes store offsets every 5 s by default."""


class LagOrder(StrEnum):
    """The order of partitions: largest lag in records or in seconds first, or by name."""

    LAG = "lag"
    SECONDS = "seconds"
    TOPIC = "topic"
    NODE = "node"


def lag_order(name: str) -> LagOrder:
    """Return the order that ``--sort`` names. Raises UsageError."""
    try:
        return LagOrder(name)
    except ValueError:
        raise UsageError(f"--sort {name}: must be one of {', '.join(LagOrder)}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """One source partition of a flow."""

    flow: str
    topic: str
    status: PartitionStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class LagReport:
    """The enabled flows. ``notes``: why no node answered, and which clusters did not. ``unanswered``: the flows whose
    partitions are therefore unknown.

    Without a node (``from_node`` is False) positions are the stored offsets, and the state WAITING stands for unknown.
    """

    flows: Sequence[FlowStatus]
    from_node: bool = True
    notes: tuple[str, ...] = ()
    unanswered: frozenset[str] = frozenset()

    @property
    def is_complete(self) -> bool:
        """Whether the lag in records of each partition is known."""
        return not self.unanswered and all(
            one.lag_known for flow in self.flows for topic in flow.topics for one in topic.partitions
        )

    def state(self, state: TaskState) -> TaskState | None:
        """Return the state to show for a ``state`` of its flows; None: unknown."""
        return None if not self.from_node and state is TaskState.WAITING else state

    def rows(self, order: LagOrder, flows: Iterable[FlowStatus] | None = None) -> list[PartitionRow]:
        """Return the partitions of ``flows`` (None: of all flows) in this order, unknown lags last."""
        chosen = self.flows if flows is None else flows
        rows = [
            PartitionRow(flow=flow.flow, topic=topic.topic, status=one)
            for flow in chosen
            for topic in flow.topics
            for one in topic.partitions
        ]

        def rank(row: PartitionRow) -> tuple[object, ...]:
            one = row.status
            records = one.lag_records is None, -(one.lag_records or 0)
            seconds = one.lag_seconds is None, -(one.lag_seconds or 0.0)
            name = row.flow, row.topic, one.partition
            match order:
                case LagOrder.LAG:
                    return *records, -(one.lag_seconds or 0.0), *name
                case LagOrder.SECONDS:
                    return *seconds, *records, *name
                case LagOrder.TOPIC:
                    return row.topic, one.partition, row.flow
                case LagOrder.NODE:
                    return not one.node, one.node, *records, *name

        return sorted(rows, key=rank)


@dataclass(frozen=True, slots=True)
class _Reading:
    """What the clusters answered at ``at``, in monotonic seconds; they are not read again before ``next_at``."""

    flows: Sequence[StoredFlow]
    at: float
    next_at: float


class LagSource:
    """Reads reports for ``node``, a URL or the path of an mm2.properties, about one flow and some topics if given.

    ``watching``: `read` is called often. The clusters are then read every `CLUSTERS_EVERY_S`, less often if a reading
    takes longer; the notes say when. ``clock`` returns monotonic seconds.
    """

    def __init__(
        self,
        node: str,
        *,
        flow: str | None = None,
        topics: Collection[str] = (),
        watching: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node = node
        self._flow = None if flow is None else flow.replace(" ", "")
        self._topics = topics
        self._watching = watching
        self._clock = clock
        self._reading: _Reading | None = None

    def read(self) -> LagReport:
        """Return the current lags. Raises CommandError if neither the node nor a flow's clusters answer, UsageError
        for an invalid file, and for a flow or topic that does not exist."""
        if "://" in self._node:
            return self._from_node()
        try:
            return self._from_node()
        except _NoSuchName:
            raise
        except CommandError as error:
            failure = error
        return self._from_clusters(failure)

    def _from_node(self) -> LagReport:
        url, context = node_url(self._node), node_context(self._node)
        flows = [flow for flow in read_flows(fetch_flows(url, context), url) if flow.enabled]
        flows = self._chosen(flows)
        unanswered = without_topics(flows)
        if self._topics:
            require_topics(self._topics, flows)
            flows = [
                replace(flow, topics=tuple(topic for topic in flow.topics if topic.topic in self._topics))
                for flow in flows
            ]
        return LagReport(flows=flows, unanswered=frozenset(flow.flow for flow in unanswered))

    def _from_clusters(self, failure: CommandError) -> LagReport:
        reading, now = self._reading, self._clock()
        if reading is None or now >= reading.next_at:
            self._reading = None
            found, began = self._read_clusters(), now
            now = self._clock()
            reading = _Reading(found, now, now + max(CLUSTERS_EVERY_S, now - began))
        notes = [
            f"no node answers ({failure}), so lags are those of the clusters: from the offsets stored on the target to"
            " the end offsets of the source"
        ]
        if self._watching:
            ago, left = now - reading.at, reading.next_at - now
            notes.append(f"the clusters were read {ago:.0f} s ago; next in {left:.0f} s")
        reasons = list(dict.fromkeys(text for one in reading.flows for text in one.notes))
        if reading.flows and not any(one.answered for one in reading.flows):
            raise CommandError("; ".join(reasons) + f"; and no node answers ({failure})")
        if self._watching:  # not before: without an answer, the next call tries again
            self._reading = reading
        if all(one.answered for one in reading.flows):
            _require(self._topics, {topic for one in reading.flows for topic in one.replicated})
        return LagReport(
            flows=[one.status for one in reading.flows],
            from_node=False,
            notes=(*notes, *reasons),
            unanswered=frozenset(one.status.flow for one in reading.flows if not one.answered),
        )

    def _read_clusters(self) -> Sequence[StoredFlow]:
        from mm2.cli.clusters.cluster_access import ask, read_settings  # noqa: PLC0415 slow to import, as the next
        from mm2.cli.node.stored_lags import read_stored_lags  # noqa: PLC0415 not needed if a node answers

        settings = [flow for flow in read_settings(Path(self._node)).flows if flow.enabled]
        return ask(read_stored_lags(self._chosen(settings), self._topics), "reading offsets of the clusters")

    def _chosen(self, flows: list[_AnyFlow]) -> list[_AnyFlow]:
        """Return the wanted flows. Raises UsageError if there is none of that name."""
        if self._flow is None:
            return flows
        chosen = [one for one in flows if str(one.flow) == self._flow]
        if not chosen:
            raise _no_such_flow(self._flow, [str(one.flow) for one in flows])
        return chosen


class _NoSuchName(UsageError):
    """The command line names a flow or topic that does not exist."""


def without_topics(flows: Iterable[FlowStatus]) -> list[FlowStatus]:
    """Return the flows whose topics their node does not know now."""
    return [flow for flow in flows if not flow.topics and flow.state in _TOPICS_UNKNOWN]


def require_topics(wanted: Iterable[str], flows: Collection[FlowStatus]) -> None:
    """Raise UsageError about the first of these topics that no flow replicates, or CommandError if that is unknown."""
    replicated = {topic.topic for flow in flows for topic in flow.topics}
    missing = [topic for topic in wanted if topic not in replicated]
    if missing and (unknown := without_topics(flows)):
        flow = unknown[0]
        reason = f": {flow.reasons[0]}" if flow.reasons else ""
        raise CommandError(
            f"cannot tell whether topic {missing[0]} is replicated: {flow.flow} is {flow.state} and its topics are not"
            f" known{reason}"
        )
    _require(missing, replicated)


def _require(wanted: Iterable[str], replicated: Collection[str]) -> None:
    for topic in wanted:
        if topic not in replicated:
            raise no_such_topic(topic, replicated)


def _no_such_flow(name: str, flows: Sequence[str]) -> UsageError:
    return _NoSuchName(f"no enabled flow {name!r}. Enabled flows: {', '.join(flows) or 'none'}.")


def no_such_topic(name: str, topics: Collection[str]) -> UsageError:
    """Return the error about a topic that is none of the source topics ``topics``."""
    similar = get_close_matches(name, sorted(topics), n=3)
    guess = f" Did you mean {' or '.join(similar)}?" if similar else ""
    return _NoSuchName(f"topic {name} is not replicated (use its name on the source).{guess}")
