"""One source task on this node, from its assignment to its release."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from mm2.core.assignment.source_task_records import SourceTaskRecord
from mm2.core.coordination.skips import NO_SKIPS, Skips
from mm2.core.lanes.accumulated_progress import PartitionStates
from mm2.core.lanes.progress_reports import SourceTaskProgress
from mm2.core.lanes.source_task_steps import TRANSITIONS, SourceTaskRestarts, SourceTaskState, Step
from mm2.core.naming.names import TopicPartition

log = logging.getLogger(__name__)


class InvalidTransitionError(Exception):
    """A state cannot follow another one: an error of this program."""


@dataclass(slots=True, kw_only=True)
class AssignedSourceTask:
    """A source task of this node. `SourceTaskRunner` and its `SourceTaskLeases` write it, on the event loop.

    ``epoch`` is the epoch of its assignment. ``state`` since ``since``, in seconds of the event loop's clock: only
    `enter` changes both. ``leased`` are the partitions of its lease, which is built from the list ``assigned``,
    ``excluded`` those of ``assigned`` that it must not copy, ``skips`` what its lease asks to skip, and ``acceptances``
    those that its lease contains (`LossStore`). ``reassigned``: it was assigned again while it was ending. ``used``: a
    lane may have written. ``unfenced_partitions``: those to which a lane may write that is not fenced yet. ``release``
    is done when its orderly release is stored. ``progress`` was processed at ``progress_at``.
    """

    source_task: int
    epoch: int
    since: float = 0.0
    state: SourceTaskState = SourceTaskState.ASSIGNED
    assigned: SourceTaskRecord | None = None
    leased: frozenset[TopicPartition] = frozenset()
    excluded: PartitionStates = field(default_factory=dict)
    skips: Skips = NO_SKIPS
    acceptances: int = 0
    restarts: SourceTaskRestarts = field(default_factory=SourceTaskRestarts)
    reassigned: bool = False
    used: bool = False
    unfenced_partitions: frozenset[TopicPartition] = frozenset()
    release: asyncio.Future[int] | None = None
    progress: SourceTaskProgress | None = None
    progress_at: float = float("-inf")
    _reason: str | None = None

    @property
    def is_ending(self) -> bool:
        """Whether it was revoked, and is not released yet."""
        return self.state in (SourceTaskState.DRAINING, SourceTaskState.ABANDONED)

    def enter(self, state: SourceTaskState, now: float, reason: str | None = None) -> None:
        """Change the state, or the reason why it is in it. Raises InvalidTransitionError."""
        self._reason = reason
        if state is self.state:
            return
        if state not in TRANSITIONS[self.state]:
            raise InvalidTransitionError(f"source task {self.source_task}: {self.state} cannot become {state}")
        log.debug(
            "source task %d: %s after %.1f s %s: %s", self.source_task, state, now - self.since, self.state, reason
        )
        self.state, self.since = state, now

    def take(self, step: Step, now: float) -> None:
        """Enter the state of a step that is being executed."""
        self.enter(step.state, now, step.reason)

    def why(self) -> str | None:
        """Return what it is waiting for, as a message for operators; None: for nothing, it runs."""
        return self._reason


def loop_time() -> float:
    """Return the time of the event loop's clock, in seconds."""
    return asyncio.get_running_loop().time()
