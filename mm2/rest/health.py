"""Is this node well? The rules of GET /health (contract: REST)."""

from __future__ import annotations

from mm2.core.lease import TaskState
from mm2.core.names import Flow
from mm2.node.published import NodeStatus
from mm2.rest.own_share import own_share
from mm2.rest.shapes import HealthShape
from mm2.rest.troubles import Trouble, troubles

UP = "UP"
DOWN = "DOWN"

MOST_REASONS = 100
"""A broker that is down fails every partition: past this many sentences one more tells how many were left out."""


def health(status: NodeStatus) -> HealthShape:
    """UP when every enabled flow runs and none of its tasks, topics or partitions on this node is FAILED, else DOWN.

    Other troubles are listed too, after those that count: errors that pass, what a running flow complains of, and
    everything about flows that are not enabled (heartbeats only).
    """
    counted, listed = [], []
    for flow in own_share(status):
        for trouble in troubles(flow):
            if flow.enabled and _counts(trouble):
                counted.append(_sentence(flow.flow, trouble))
            else:
                listed.append(
                    _sentence(flow.flow, trouble) + ("" if flow.enabled else " (heartbeats only: not counted)")
                )
    reasons = counted + listed
    if len(reasons) > MOST_REASONS:
        reasons = [*reasons[:MOST_REASONS], f"and {len(reasons) - MOST_REASONS} more: see /flows"]
    return HealthShape(status=DOWN if counted else UP, reasons=tuple(reasons))


def _counts(trouble: Trouble) -> bool:
    return trouble.state is TaskState.FAILED or (not trouble.place and trouble.state is not TaskState.RUNNING)


def _sentence(flow: Flow, trouble: Trouble) -> str:
    if not _counts(trouble):
        return f"{flow}: {trouble}"
    if not trouble.place:
        return f"{flow} is {trouble.state}: {trouble.words}"
    return f"{flow}: {trouble.place} is {trouble.state}: {trouble.words}"
