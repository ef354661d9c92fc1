"""State of a flow that is kept from one session to the next."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from mm2.core.assignment.task_placement import TaskAssignments
from mm2.core.assignment.tasks import TaskId
from mm2.core.lanes.loss_book import LossBook
from mm2.node.checkpoint.checkpoint_log import CheckpointMetrics
from mm2.node.status.progress import FlowProgress


@dataclass(slots=True, kw_only=True)
class RetainedFlowState:
    """State that outlives a session of the flow.

    ``progress``, ``checkpoint_metrics`` and ``heartbeats`` count since the node started. ``placement`` is the newest
    assignment that this node received or computed (`take_placement`). ``moved_at``: when the owner of a task changed
    last, or it was decided to change it, in seconds of the monotonic clock; not for tasks that had no place before.
    ``losses``: the recorded losses as they were read last; a loss is no less unaccepted while the target is down.
    """

    progress: FlowProgress = field(default_factory=FlowProgress)
    checkpoint_metrics: CheckpointMetrics = field(default_factory=CheckpointMetrics)
    placement: TaskAssignments = field(default_factory=TaskAssignments)
    moved_at: Mapping[TaskId, float] = field(default_factory=dict)
    heartbeats: int = 0
    losses: LossBook = field(default_factory=LossBook)

    def take_losses(self, losses: LossBook) -> None:
        """Use what a new session has read of the losses topic."""
        self.losses = losses

    def take_placement(self, placement: TaskAssignments) -> None:
        """Use the result of a rebalance."""
        before, self.placement = self.placement.places, placement
        moved = {
            task
            for task, place in placement.places.items()
            if task in before and (before[task].owner, before[task].next) != (place.owner, place.next)
        }
        known = {task: at for task, at in self.moved_at.items() if task in placement.places}
        self.moved_at = {**known, **dict.fromkeys(moved, time.monotonic())}
