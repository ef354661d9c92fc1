"""The partitions whose lag is shown: from a running node, or from the clusters of the file if none answers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path

from mm2.cli.errors import CommandError, UsageError
from mm2.cli.node.node_address import node_context, node_url
from mm2.cli.node.node_client import fetch_flows, read_flows
from mm2.core.lanes.task_states import TaskState
from mm2.node.status.status_model import FlowStatus, PartitionStatus


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
    """The enabled flows. ``notes``: why no node answered, and which clusters did not.

    Without a node (``from_node`` is False) positions are the stored offsets, and the state WAITING stands for unknown.
    """

    flows: Sequence[FlowStatus]
    from_node: bool = True
    notes: tuple[str, ...] = ()

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


class LagSource:
    """Reads reports for ``node``, a URL or the path of an mm2.properties, about one flow and some topics if given."""

    def __init__(self, node: str, *, flow: str | None = None, topics: Collection[str] = ()) -> None:
        self._node = node
        self._flow = None if flow is None else flow.replace(" ", "")
        self._topics = topics

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
        return LagReport(flows=self._filtered(flows))

    def _from_clusters(self, failure: CommandError) -> LagReport:
        from mm2.cli.clusters.cluster_access import ask, read_settings  # noqa: PLC0415 slow to import, as the next
        from mm2.cli.node.stored_lags import read_stored_lags  # noqa: PLC0415 not needed if a node answers

        settings = [flow for flow in read_settings(Path(self._node)).flows if flow.enabled]  # an invalid file first
        if self._flow is not None:
            chosen = [flow for flow in settings if str(flow.flow) == self._flow]
            if not chosen:
                raise _no_such_flow(self._flow, [str(flow.flow) for flow in settings])
            settings = chosen
        found = ask(read_stored_lags(settings), "reading offsets of the clusters")
        first = (
            f"no node answers ({failure}), so lags are those of the clusters: from the offsets stored on the target to"
            " the end offsets of the source"
        )
        notes = (first, *dict.fromkeys(text for one in found for text in one.notes))
        if found and not any(one.answered for one in found):
            raise CommandError("; ".join(notes[1:]) + f"; and no node answers ({failure})")
        flows = self._filtered([one.status for one in found], complete=all(one.answered for one in found))
        return LagReport(flows=flows, from_node=False, notes=notes)

    def _filtered(self, flows: list[FlowStatus], *, complete: bool = True) -> list[FlowStatus]:
        """Return the wanted flows with the wanted topics. ``complete``: an unknown topic is an error."""
        if self._flow is not None:
            chosen = [flow for flow in flows if flow.flow == self._flow]
            if not chosen:
                raise _no_such_flow(self._flow, [flow.flow for flow in flows])
            flows = chosen
        if not self._topics:
            return flows
        names = {topic.topic for flow in flows for topic in flow.topics}
        for wanted in self._topics:
            if wanted not in names and complete:
                raise _no_such_topic(wanted, names)
        return [
            replace(flow, topics=tuple(topic for topic in flow.topics if topic.topic in self._topics)) for flow in flows
        ]


class _NoSuchName(UsageError):
    """The command line names a flow or topic that does not exist."""


def _no_such_flow(name: str, flows: Sequence[str]) -> UsageError:
    return _NoSuchName(f"no enabled flow {name!r}. Enabled flows: {', '.join(flows) or 'none'}.")


def _no_such_topic(name: str, topics: Collection[str]) -> UsageError:
    similar = get_close_matches(name, sorted(topics), n=3)
    guess = f" Did you mean {' or '.join(similar)}?" if similar else ""
    return _NoSuchName(f"topic {name} is not replicated (use its name on the source).{guess}")
