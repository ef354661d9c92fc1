"""State of a flow that is kept from one session to the next."""

from __future__ import annotations

from dataclasses import dataclass, field

from mm2.core.assignment.task_placement import TaskAssignments
from mm2.node.checkpoint.checkpoint_metrics import CheckpointMetrics
from mm2.node.status.progress import FlowProgress


@dataclass(slots=True, kw_only=True)
class RetainedFlowState:
    """State that outlives a session of the flow.

    ``progress``, ``checkpoint_metrics`` and ``heartbeats`` count since the node started. ``placement`` is the newest
    assignment that this node received or computed.
    """

    progress: FlowProgress = field(default_factory=FlowProgress)
    checkpoint_metrics: CheckpointMetrics = field(default_factory=CheckpointMetrics)
    placement: TaskAssignments = field(default_factory=TaskAssignments)
    heartbeats: int = 0
