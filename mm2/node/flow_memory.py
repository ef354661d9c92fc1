"""What a flow keeps while its connections come and go."""

from __future__ import annotations

from dataclasses import dataclass, field

from mm2.core.placement import Placement
from mm2.node.checkpoint_tally import CheckpointTally
from mm2.node.progress import FlowProgress


@dataclass(slots=True, kw_only=True)
class FlowMemory:
    """``progress`` and ``tally`` count since the node started. ``placement``: the newest that this node took in, or
    decided."""

    progress: FlowProgress = field(default_factory=FlowProgress)
    tally: CheckpointTally = field(default_factory=CheckpointTally)
    placement: Placement = field(default_factory=Placement)
    heartbeats: int = 0
