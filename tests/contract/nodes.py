"""Nodes of one flow for REST tests: real servers that record commands and whose leadership a test sets."""

from __future__ import annotations

import secrets
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from mm2.core.access.audit import AuditEntry, CommandOrigin
from mm2.core.coordination.commands import Command, CommandRefusedError
from mm2.core.coordination.leader_context import LeaderContext
from mm2.core.coordination.query_history_records import QueriesUnreadableError, QueryHistories
from mm2.core.coordination.request_signing import RequestLine, command_secret, request_id
from mm2.core.coordination.session_keys import SessionKey
from mm2.core.lanes.losses import Loss, LossesUnreadableError
from mm2.core.lanes.partition_steps import PartitionStory
from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.positions.answer import PositionAnswer, Precision
from mm2.core.positions.position_names import PositionRejectedError
from mm2.core.positions.positions import Position, PositionAnswers, PositionsUnreadableError, translated
from mm2.core.problems.problem_times import ProblemTimes
from mm2.core.settings.listener import ServerTls
from mm2.node.commands.accept_loss import AcceptLoss
from mm2.node.commands.pause import Pause
from mm2.node.commands.registry import command_types
from mm2.node.commands.restart import RestartTask
from mm2.node.status.status_model import FlowStatus, NodeStatus
from mm2.rest.access.gate import AccessGate
from mm2.rest.app import ENDPOINTS, rest_app
from mm2.rest.endpoint import RestContext
from mm2.rest.internal.peers import Peers
from mm2.rest.merge.cluster_view import ClusterView
from mm2.rest.server.server import RestServer
from tests.contract.samples import LOSS, QUERIES, node

A_B = Flow("A", "B")
KEY = SessionKey(secret=b"k" * 32, algorithm="HmacSHA256", created_ms=0)
OTHER_KEY = SessionKey(secret=b"o" * 32, algorithm="HmacSHA256", created_ms=1)
WholeFlow = Callable[[], Awaitable[FlowStatus]]
CarryOut = Callable[[Flow, Command, CommandOrigin, WholeFlow], Awaitable[str]]
TOKEN = "open-sesame-open"
PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients of plain HTTP: without it, each client would load all system certificates."""


def signed(
    url: str,
    path: str,
    body: bytes = b"",
    *,
    method: str = "POST",
    key: SessionKey = KEY,
    token: str | None = TOKEN,
    algorithm: str = "HmacSHA256",
    later_s: float = 0.0,
) -> dict[str, str]:
    """Return the headers of a request to the node at ``url``, sent ``later_s`` from now."""
    id = request_id(time.time_ns() // 1_000_000 + int(later_s * 1_000), secrets.token_bytes(16))
    line = RequestLine(method=method, node_url=url, path=path, id=id)
    return line.sign(key.secret if token is None else command_secret(key.secret, token), body, algorithm)


LOG = ("2025-11-21T16:00:00.000Z INFO    mm2.node: A->B: started", "2025-11-21T16:00:01.000Z WARNING mm2.node: slow")


class CommandLog:
    """Executes every command except those for topic ``secret``, or task or partition 9."""

    def __init__(self) -> None:
        self.done: list[Command] = []
        self.origins: list[CommandOrigin] = []

    async def carry_out(self, flow: Flow, command: Command, origin: CommandOrigin, status: WholeFlow) -> str:
        if isinstance(command, RestartTask) and command.task.endswith("-9"):
            raise CommandRefusedError(f"{flow} has no task {command.task}", is_unknown=True)
        if isinstance(command, Pause) and "secret" in command.topics:
            raise CommandRefusedError("topic secret is being recreated: try again in a minute")
        if isinstance(command, AcceptLoss) and command.partition == 9:
            raise CommandRefusedError("no loss of topic orders partition 9 waits for acceptance", is_unknown=True)
        self.done.append(command)
        self.origins.append(origin)
        return "it is done"


class AuditRecords:
    """Keeps audit records: all of them, those for the topic, and how many ``commands`` were executed at each."""

    def __init__(self, commands: CommandLog | None = None) -> None:
        self.all: list[AuditEntry] = []
        self.stored: list[AuditEntry] = []
        self.executed: list[int] = []
        self._commands = commands or CommandLog()

    def __call__(self, entry: AuditEntry, *, stored: bool = False) -> None:
        self.all.append(entry)
        self.executed.append(len(self._commands.done))
        if stored:
            self.stored.append(entry)


async def recorded_losses(flow: Flow) -> tuple[Loss, ...]:
    if flow != A_B:
        raise LossesUnreadableError(f"no flow {flow} on this node; its flows: {A_B}", is_unknown=True)
    return (LOSS,)


def recorded_queries(flow: Flow) -> QueryHistories:
    if flow != A_B:
        raise QueriesUnreadableError(f"no flow {flow} on this node; its flows: {A_B}", is_unknown=True)
    return QUERIES


async def translated_positions(flow: Flow, positions: Sequence[Position], reverse: bool) -> PositionAnswers:
    """Each position is 20 later on the target; topic ``hidden`` is not copied, offsets below 20 are not known."""
    if flow != A_B:
        raise PositionsUnreadableError(f"no flow {flow} on this node; its flows: {A_B}", is_unknown=True)
    rows = []
    for one in positions:
        if one.topic == "hidden":
            raise PositionRejectedError("A->B does not copy topic hidden: not selected", "use the name on the source")
        offset = one.offset + (-20 if reverse else 20)
        exact = PositionAnswer(offset=offset, precision=Precision.EXACT)
        unknown = PositionAnswer(offset=None, precision=Precision.CONSERVATIVE, reason="too old", read_again=None)
        there = TopicPartition(one.topic.removeprefix("A.") if reverse else f"A.{one.topic}", one.partition)
        rows.append(translated(one, there, unknown if offset < 0 else exact, reverse=reverse))
    return PositionAnswers(rows=tuple(rows), notes=("cluster A is unreachable (timed out)",))


def rest_context(peers: Peers, gate: AccessGate = AccessGate(enabled=False, token=None)) -> RestContext:  # noqa: B008
    """Return the REST context of a node that belongs to no flow, for its own endpoints."""
    return RestContext(
        status=node,
        leader_contexts=lambda _source, _target: None,
        peers=peers,
        view=ClusterView(lambda _source, _target: None, peers),
        gate=gate,
        audit=AuditRecords(),
        commands=command_types(),
        carry_out=CommandLog().carry_out,
        losses=recorded_losses,
        query_histories=recorded_queries,
        translate=translated_positions,
        story=lambda _flow, _partition: PartitionStory(),
        problem_times=ProblemTimes,
        log=lambda: LOG,
    )


class RestNode:
    """One node: its server, the commands it executed, and whether it leads A->B."""

    def __init__(
        self,
        name: str,
        *,
        tls: ServerTls | None = None,
        context: ssl.SSLContext | None = None,
        within: float = 30.0,
        share_s: float | None = 30.0,
        admin: bool = True,
        gate: AccessGate | None = None,
        endpoints: Mapping[str, str] = ENDPOINTS,
        carry_out: CarryOut | None = None,
    ) -> None:
        self.name = name
        self.commands = CommandLog()
        self.audit = AuditRecords(self.commands)
        self.gate = gate or AccessGate(enabled=admin, token=TOKEN)
        self.times_asked = 0
        self.read_losses = recorded_losses
        self.stories: dict[TopicPartition, PartitionStory] = {}
        self.peers = Peers(context or PLAIN, within=within)
        self.leader_context = LeaderContext(flow=A_B, leads=False, leader_url=None, own_url=None, session_key=KEY)
        self.published = node(node_id=name)
        self.view = ClusterView(self._leader_context, self.peers, timeout_s=share_s)
        self.context = RestContext(
            status=self._publish,
            leader_contexts=self._leader_context,
            peers=self.peers,
            view=self.view,
            gate=self.gate,
            audit=self.audit,
            commands=command_types(),
            carry_out=carry_out or self.commands.carry_out,
            losses=self._losses,
            query_histories=recorded_queries,
            translate=translated_positions,
            story=lambda _flow, partition: self.stories.get(partition, PartitionStory()),
            problem_times=ProblemTimes,
            log=lambda: LOG,
        )
        self.server = RestServer(rest_app(self.context, endpoints=endpoints), tls=tls)

    async def _losses(self, flow: Flow) -> tuple[Loss, ...]:
        return await self.read_losses(flow)

    def stand(self, *, leads: bool = False, leader: RestNode | str | None = None, key: SessionKey | None = KEY) -> None:
        url = leader.server.url if isinstance(leader, RestNode) else leader
        self.leader_context = replace(
            self.leader_context, leads=leads, leader_url=url, own_url=self.server.url, session_key=key
        )

    def _publish(self) -> NodeStatus:
        self.times_asked += 1
        return self.published

    def _leader_context(self, source: str, target: str) -> LeaderContext | None:
        return self.leader_context if Flow(source, target) == A_B else None


@asynccontextmanager
async def rest_nodes(
    names: Sequence[str],
    *,
    tls: ServerTls | None = None,
    context: ssl.SSLContext | None = None,
    within: float = 30.0,
    share_s: float | None = 30.0,
    admin: bool = True,
    gate: AccessGate | None = None,
    endpoints: Mapping[str, str] = ENDPOINTS,
    carry_out: CarryOut | None = None,
) -> AsyncIterator[list[RestNode]]:
    """Start nodes that listen on loopback.

    ``within``: seconds a node waits for another; ``share_s``: the same for a share of a flow, None: as long as in
    production; ``admin``: mm2.rest.admin; ``gate``: the same for all nodes.
    """
    async with AsyncExitStack() as stack:
        nodes = [
            RestNode(
                name,
                tls=tls,
                context=context,
                within=within,
                share_s=share_s,
                admin=admin,
                gate=gate,
                endpoints=endpoints,
                carry_out=carry_out,
            )
            for name in names
        ]
        for one in nodes:
            await one.server.start()
            stack.push_async_callback(one.server.stop)
            stack.push_async_callback(one.peers.close)
            stack.push_async_callback(one.view.close)
        yield nodes
