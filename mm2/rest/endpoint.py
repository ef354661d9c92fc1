"""The interface between the REST application and its endpoints."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fastapi import APIRouter

from mm2.core.access.audit import AuditEntry, CommandOrigin
from mm2.core.coordination.commands import Command, CommandType
from mm2.core.coordination.query_history_records import QueryHistories
from mm2.core.lanes.losses import Loss
from mm2.core.lanes.partition_steps import PartitionStory
from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.positions.positions import Position, PositionAnswers
from mm2.core.problems.problem_times import ProblemTimes
from mm2.node.status.status_model import FlowStatus, NodeStatus
from mm2.rest.access.gate import AccessGate
from mm2.rest.internal.peers import Peers
from mm2.rest.internal.signed_calls import LeaderContexts
from mm2.rest.merge.cluster_view import ClusterView, ShareType


class Audit(Protocol):
    """Logs what was done; with ``stored`` it is written to the audit topic of its flow, too, as soon as possible."""

    def __call__(self, entry: AuditEntry, *, stored: bool = False) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RestContext:
    """The node as its endpoints see it.

    ``status`` returns its newest state; it is thread-safe. ``carry_out`` executes a command on the leader of a flow,
    with its origin and a function that returns the status of the whole flow, and returns a message about its
    effect; it raises CommandRefusedError. ``audit`` is called before, and with the outcome. Commands are
    idempotent: a node that received no response sends the command again. ``losses`` returns every recorded loss of
    a flow, or raises LossesUnreadableError. ``query_histories`` returns the histories of queries of a flow as the
    node has read them, or raises QueriesUnreadableError. ``translate`` translates positions of a flow, in reverse
    if its last argument is true; it raises PositionRejectedError and PositionsUnreadableError. ``story`` returns
    what the node knows of one partition of a flow. ``problem_times`` returns since when its flows have problems.
    ``log`` returns the last lines of the node's log, without secrets.
    """

    status: Callable[[], NodeStatus]
    leader_contexts: LeaderContexts
    peers: Peers
    view: ClusterView
    gate: AccessGate
    audit: Audit
    commands: Mapping[str, CommandType]
    carry_out: Callable[[Flow, Command, CommandOrigin, Callable[[], Awaitable[FlowStatus]]], Awaitable[str]]
    losses: Callable[[Flow], Awaitable[tuple[Loss, ...]]]
    query_histories: Callable[[Flow], QueryHistories]
    translate: Callable[[Flow, Sequence[Position], bool], Awaitable[PositionAnswers]]
    story: Callable[[Flow, TopicPartition], PartitionStory]
    problem_times: Callable[[], ProblemTimes]
    log: Callable[[], Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An entry of `mm2.rest.app.ENDPOINTS`. ``share``: the state it requests from the other nodes of a flow;
    ``needs_no_token``: it answers without one, also with mm2.rest.read = token, or checks it itself."""

    router: Callable[[RestContext], APIRouter]
    share: ShareType[Any] | None = None
    needs_no_token: bool = False
