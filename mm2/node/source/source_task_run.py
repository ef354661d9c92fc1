"""The state of one source task on this node, from its assignment to its release."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from mm2.core.assignment.source_task_records import SourceTaskRecord
from mm2.core.coordination.skips import NO_SKIPS, Skips
from mm2.core.lanes.accumulated_progress import PartitionStates
from mm2.core.lanes.progress_reports import SourceTaskProgress
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import TopicPartition
from mm2.node.engine.managed_lane import LaneState

RESTART_FAILED_S = 30.0
"""Longest delay before a source task that failed as a whole is restarted: long enough to see the error in the status,
and to use little CPU while the cause persists."""

FIRST_RESTART_S = 1.0
"""Delay before the first restart, which doubles with each further one. A broker that was away for longer than a
transaction may take has timed it out: the source task then fails once, and continues at once with a new epoch."""

HEALTHY_AFTER_S = 120.0
"""A source task that failed this long after its last restart is restarted as for the first time."""

RESTART_NOW = float("-inf")
"""``failed_at`` of a source task that is to be restarted immediately."""


@dataclass(slots=True, kw_only=True)
class SourceTaskRun:
    """A source task from its assignment to its release.

    ``epoch`` is the epoch of its assignment. ``leased`` are the partitions of its lease, which is built from
    ``assigned``, ``excluded`` those of ``assigned`` that it must not copy, and ``skips`` what its lease asks to skip.
    ``failed_at`` is when it failed as a whole, in seconds of the event loop's clock. ``reassigned``: it was assigned
    again while it was draining. ``used``: a lane may have written. ``unfenced_partitions``: those to which a lane may
    write that is not fenced yet. ``abandoned``: it ended without being drained. ``release`` is done when its orderly
    release is stored. ``acceptances`` are those that its lease contains (`LossStore`). ``restarts_in_a_row`` after
    failures, the last of them at ``restarted_at`` by the same clock. ``restart_reason`` is why `request_restart` was
    called.
    """

    source_task: int
    epoch: int
    assigned: SourceTaskRecord | None = None
    leased: frozenset[TopicPartition] = frozenset()
    excluded: PartitionStates = field(default_factory=dict)
    skips: Skips = NO_SKIPS
    restart: int = 0
    failed_at: float | None = None
    draining_since: float | None = None
    progress: SourceTaskProgress | None = None
    progress_at: float = float("-inf")
    reassigned: bool = False
    used: bool = False
    unfenced_partitions: frozenset[TopicPartition] = frozenset()
    abandoned: bool = False
    release: asyncio.Future[int] | None = None
    acceptances: int = 0
    restarts_in_a_row: int = 0
    restarted_at: float = float("-inf")
    restart_reason: str = ""

    @property
    def draining(self) -> bool:
        return self.draining_since is not None

    def restart_is_due(self, lane: LaneState | None, now: float) -> bool:
        """Return whether a restart was requested, or the task failed as a whole and its delay is over."""
        if self.failed_at == RESTART_NOW:
            return True
        if lane is None or not lane.current or lane.source_task.state is not TaskState.FAILED:
            self.failed_at = None
            return False
        if self.failed_at is None:
            self.failed_at = now
        if self.failed_at - self.restarted_at >= HEALTHY_AFTER_S:
            self.restarts_in_a_row = 0
        return now - self.failed_at >= min(FIRST_RESTART_S * float(2**self.restarts_in_a_row), RESTART_FAILED_S)

    def request_restart(self, reason: str) -> None:
        """Let the next lease restart the source task."""
        self.failed_at, self.restart_reason = RESTART_NOW, reason

    def restarted(self, now: float) -> None:
        """A lease was granted that restarts the failed source task."""
        self.restart += 1
        self.restarts_in_a_row = min(self.restarts_in_a_row + 1, 10)
        self.restarted_at = now
        self.failed_at, self.restart_reason = None, ""
