"""The objects that a command acts on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from mm2.core.access.audit import CommandOrigin
from mm2.core.assignment.task_placement import TaskAssignments
from mm2.node.leader.leader_term import LeaderTerm
from mm2.node.status.status_model import FlowStatus
from mm2.node.store.config_store import ConfigStore
from mm2.node.store.loss_store import LossStore


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderHandle:
    """The parts of a flow that a command needs on the leader. ``status`` returns the status of the whole flow;
    ``origin``: who sent the command, and why."""

    term: LeaderTerm
    configs: ConfigStore
    placement: TaskAssignments
    losses: LossStore
    status: Callable[[], Awaitable[FlowStatus]]
    origin: CommandOrigin
