"""What a node shows of itself: the shapes behind /flows, /health and the metrics (contract: REST).

The node replaces these values; whoever reads them gets a consistent picture without locks.
"""

from __future__ import annotations

from dataclasses import dataclass

from mm2.core.lease import BatchCount, Loss, TaskState
from mm2.core.names import Flow


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """One source partition. Offsets are the source's, -1 where not known yet; totals since the node started.
    ``*_sum`` are seconds, one observation a batch."""

    partition: int
    state: TaskState
    position: int
    end_offset: int
    lag_records: int
    lag_seconds: float
    error: str | None
    records_total: int
    bytes_total: int
    latency_sum: float
    latency_count: int
    age_sum: float
    age_count: int

    @property
    def lag_known(self) -> bool:
        """Whether both ends of the lag are known; before that ``lag_records`` and ``lag_seconds`` say nothing."""
        return self.position >= 0 and self.end_offset >= 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatus:
    """One replicated topic; ``state`` is the worst of its partitions and of the remote topic's own trouble."""

    topic: str
    remote_topic: str
    state: TaskState
    error: str | None
    partitions: tuple[PartitionStatus, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """``id`` is Java's: MirrorSourceConnector-0 and so on. ``kind``: source, checkpoint or heartbeat."""

    id: str
    kind: str
    node: str
    state: TaskState
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStatus:
    """``leader``: node id or None. ``reasons``: one sentence for each thing that keeps the flow from running well."""

    flow: Flow
    enabled: bool
    state: TaskState
    leader: str | None
    is_leader: bool
    epoch: int
    reasons: tuple[str, ...] = ()
    tasks: tuple[TaskStatus, ...] = ()
    topics: tuple[TopicStatus, ...] = ()
    batches: tuple[BatchCount, ...] = ()
    losses: tuple[Loss, ...] = ()
    heartbeats_total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """The whole picture. ``started_at`` is epoch seconds."""

    node_id: str
    version: str
    started_at: float
    flows: tuple[FlowStatus, ...]
    spark_ui: str | None = None
