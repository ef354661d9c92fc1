"""The progress that lanes report to their node: `LaneProgress`, with one part for each source task and partition."""

from __future__ import annotations

from dataclasses import dataclass, field

from mm2.core.lanes.counters import PartitionCounters, SourceTaskCounters
from mm2.core.lanes.fetch_shares import FetchTotals
from mm2.core.lanes.losses import Loss
from mm2.core.lanes.partition_steps import PartitionEvent, RecentWaits, StepReport
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import Flow


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProgress:
    """Replication progress of one source partition. Offsets are source offsets; counters start at 0 with this lane run.

    ``position``: next offset to copy; everything before it is acknowledged by the target, left out or carries no data
    (-1: unknown yet). ``stored``: the offset a restart would start at. ``end_offset``: high watermark, or last stable
    offset under read_committed (-1: unknown yet). ``end_observed``: None if the source told it within the last 10 s;
    otherwise when it last did, in epoch seconds, and the lag is unknown since. ``stopped_at`` and ``stopped_until``:
    the offsets, without the last, that cannot be copied and stop the partition; None: it is not stopped by a record.
    ``fetching`` and ``sending``: its steps; None: unknown. ``last_minute``: what it waited for; None: unknown.
    """

    topic: str
    partition: int
    remote_topic: str
    state: TaskState
    position: int = -1
    stored: int | None = None
    end_offset: int = -1
    end_observed: float | None = None
    lag_seconds: float = 0.0
    error: str | None = None
    stopped_at: int | None = None
    stopped_until: int | None = None
    counters: PartitionCounters = field(default_factory=PartitionCounters)
    fetching: StepReport | None = None
    sending: StepReport | None = None
    last_minute: RecentWaits | None = None

    @property
    def lag_records(self) -> int | None:
        """The end offset minus the position; None: one of both is unknown, or was not told within the last 10 s."""
        if self.position < 0 or self.end_offset < 0 or self.end_observed is not None:
            return None
        return self.end_offset - self.position


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCount:
    """Batches sent through one path: ``pass-through`` with reason "", ``rebatch`` with its reason, or ``sql``."""

    path: str
    reason: str
    batches: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTaskProgress:
    """One source task's report.

    ``drained``: nothing is in flight and all offsets are stored, so the source task can be reassigned. ``warnings``:
    messages for the operator while everything runs. ``whole`` False: ``partitions`` omits those unchanged since the
    last report that the node has answered. ``events``: those of all partitions since that report, oldest first.
    ``counters`` start at 0 with this run. ``last_minute``: what all its partitions waited for; None: unknown.
    ``fetched``: since the lane started the source task; None: its fetching is not limited.
    """

    flow: Flow
    source_task: int
    epoch: int
    state: TaskState
    drained: bool = False
    error: str | None = None
    partitions: tuple[PartitionProgress, ...] = ()
    whole: bool = True
    batches: tuple[BatchCount, ...] = ()
    losses: tuple[Loss, ...] = ()
    warnings: tuple[str, ...] = ()
    events: tuple[PartitionEvent, ...] = ()
    counters: SourceTaskCounters = field(default_factory=SourceTaskCounters)
    last_minute: RecentWaits | None = None
    fetched: FetchTotals | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneProgress:
    """A lane's report, sent about once a second. ``version`` is that of the orders it is executing. ``memory_bytes``:
    of its Python processes, with their share of what they have in common with others; None: unknown."""

    version: int
    pid: int
    source_tasks: tuple[SourceTaskProgress, ...] = ()
    buffered_bytes: int = 0
    memory_bytes: int | None = None
