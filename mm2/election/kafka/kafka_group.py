"""Election by Kafka's group membership protocol: the classic JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

The group has its own protocol type, so the broker rejects Java's MirrorMaker (type "connect") in this group and this
node in Java's (INCONSISTENT_GROUP_PROTOCOL), and tools do not treat it as a consumer group.
docs/adr/0001-group-membership.md explains why aiokafka's GroupCoordinator is not used.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import Any

from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

from mm2.core.access.rights import Right, on_group
from mm2.core.settings.election import BACKENDS
from mm2.core.topics.acls import Operation
from mm2.election.kafka.group_answers import decode_answer, encode_answers
from mm2.election.kafka.group_messages import ELECTING, HOLDING, PROTOCOL_TYPE, decode_member, encode_member
from mm2.election.protocol import Assign, HeldByOther, Joined, Lost, MemberInfo
from mm2.election.session_election import SessionElection
from mm2.kafka.backoff import Backoff
from mm2.kafka.client.cluster import Cluster, CoordinatorKind
from mm2.kafka.clock import session_clock
from mm2.kafka.connection.diagnosis import cut_off
from mm2.kafka.errors import BrokerError, ClusterError, RequestTimedOut, Unreachable, check
from mm2.kafka.groups.group_protocol import group_protocol
from mm2.kafka.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

_ROOM_MS = 5_000  # added to the broker's maximum wait, so that its response can arrive
EXPECTING_MS = 250
"""Heartbeat interval while a task moves between nodes: it does not run until the next rebalance."""

_LEAVE_SECONDS = 3.0  # timeout of LeaveGroup; without it the others wait for the session timeout

_FIND_AGAIN = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_KNOWN_MEMBER = frozenset({ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS})  # responses that prove a membership
_NOT_A_MEMBER = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID})


_CONNECT = "connect"  # protocol type of Kafka Connect, and so of Java's MirrorMaker


async def describe_holder(cluster: Cluster, group_id: str) -> str:
    """Return a message naming the holder of the group, as far as the broker reports it."""
    where = f"group {group_id}" + (f" on cluster {cluster.settings.alias}" if cluster.settings.alias else "")
    found = await group_protocol(cluster, group_id)
    from_hosts = f" ({', '.join(found.members)})" if found.members else ""
    if found.protocol_type == _CONNECT:
        return f"a Java MirrorMaker holds {where}{from_hosts}; waiting until it stops"
    if found.protocol_type == PROTOCOL_TYPE:
        ours = _our_nodes(found.protocol)
        return f"{ours} hold {where}{from_hosts}, but this node is configured differently; waiting until they stop"
    if found.protocol_type:
        return f"another tool (group protocol {found.protocol_type}) holds {where}{from_hosts}; waiting until it stops"
    return f"a Java MirrorMaker or another tool holds {where}; waiting until it stops"


def _our_nodes(protocol: str) -> str:
    """Describe the nodes that hold the group by its protocol name, which is empty during a rebalance."""
    if protocol == ELECTING:
        return "nodes with mm2.election = kafka"
    if protocol.startswith(HOLDING):
        place = protocol.removeprefix(HOLDING)
        backend = next((name for name in BACKENDS if place.startswith(f"{name} ")), "zookeeper")
        return f"nodes with mm2.election = {backend} ({place.removeprefix(f'{backend} ')})"
    return "nodes with another mm2.election or mm2.zookeeper.connect"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Properties of the same names in Connect's DistributedConfig with its defaults; milliseconds.

    ``protocols`` identify the use of the group: a broker rejects a member that has none in common with all others.
    """

    group_id: str
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 60_000
    protocols: tuple[str, ...] = (ELECTING,)


class KafkaGroup(SessionElection):
    """An `Election`. One task sends requests to the coordinator; a timer ends the membership if none is answered.

    Invariants in addition to the port's:
    D. The session timeout starts when a request is sent, not when it is answered.
    E. Each group has its own connection: a join waits at the broker for the other members, and later requests on the
       same connection would wait too. Heartbeats use a second one meanwhile: a request that waits proves nothing.
    """

    def __init__(self, cluster: Cluster, settings: GroupSettings, info: MemberInfo, assign: Assign) -> None:
        group = f"group {settings.group_id}"
        super().__init__(info, assign, store=group, name=group)
        self._cluster = cluster
        self._settings = settings
        self._coordinator: int | None = None
        self._member_id = ""
        self._generation = -1
        self._rejoin = True
        self._expecting = False
        self._trouble: ClusterError | None = None

    @property
    def contact(self) -> float:
        """When the newest answered request was sent that proved the membership.

        -inf between the responses to JoinGroup and SyncGroup, which belong to the next generation.
        """
        membership = self._stream.membership
        same = isinstance(membership, Joined) and membership.generation == self._generation
        return self._stream.contact if same else float("-inf")

    def update(self, info: MemberInfo, *, quiet: bool = False) -> None:
        """Replace this member's metadata; a change starts a rebalance, unless ``quiet``."""
        differs = encode_member(info) != encode_member(self._info)
        self._info = info
        if differs and not quiet:
            self.request_round()

    def expect_rebalance(self, wanted: bool) -> None:
        """Set whether a rebalance is expected; if so, heartbeats, whose responses report it, are sent more often."""
        if wanted and not self._expecting:
            self._wake.set()
        self._expecting = wanted

    def request_round(self) -> None:
        """Join again. The broker starts a rebalance if this node leads or its metadata changed; otherwise it returns
        the result of the last one."""
        self._rejoin = True
        self._wake.set()

    async def __aexit__(self, *_: object) -> None:
        await super().__aexit__()
        self._stream.stop_clock()
        await self._leave()

    # -- steps

    async def _run(self) -> None:
        backoff = Backoff.for_retries(self._cluster.settings)
        while True:
            try:
                await self._step()
            except ClusterError as error:
                pause = await self._recover(error, backoff.next())
                await asyncio.sleep(pause)
            else:
                self._trouble = None
                backoff.reset()
                await self._pause()

    async def _pause(self) -> None:
        """Wait until the next heartbeat is due, or there is something to do."""
        interval_ms = self._settings.heartbeat_interval_ms
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(
                min(interval_ms, EXPECTING_MS) / 1000 if self._expecting else interval_ms / 1000
            ):
                await self._wake.wait()
        if not self._rejoin:
            self._wake.clear()

    async def _step(self) -> None:
        if self._coordinator is None:
            self._coordinator = await self._cluster.coordinator(
                CoordinatorKind.GROUP, self._settings.group_id, operation=Operation.READ
            )
        if self._rejoin:
            await self._round()
        else:
            await self._heartbeat()

    async def _round(self) -> None:
        """Join and sync; as leader, with the assignments of all members."""
        self._rejoin = False
        self._wake.clear()
        try:
            joined = await self._join()
            self._member_id, self._generation = joined.member_id, joined.generation_id
            answers = self._decide(joined) if joined.leader_id == joined.member_id else []
            request = SyncGroupRequest(self._settings.group_id, self._generation, self._member_id, None, answers)
            sent, synced = await self._ask_and_wait(request)
            check(synced.error_code, f"synchronize group {self._settings.group_id}", right=self._right)
            self._prove(sent)
        except ClusterError:
            self._rejoin = True
            raise
        answer = decode_answer(synced.member_assignment)
        if answer is None:
            self._stream.publish(
                Lost(reason=f"{self._where}: ignoring assignment from the leader: unknown format (different version?)")
            )
            return
        self._stream.publish(
            Joined(
                generation=self._generation,
                member_id=self._member_id,
                leader_id=answer.leader_id,
                members=answer.members,
                assignment=answer.assignment,
                error=f"{self._where}: {answer.error}" if answer.error else None,
            )
        )

    async def _join(self) -> Any:
        try:
            return await self._ask_to_join()
        except BrokerError as error:
            if error.code != ErrorCode.MEMBER_ID_REQUIRED:
                raise
        return await self._ask_to_join()  # now with the member ID from the error response (KIP-394)

    async def _ask_to_join(self) -> Any:
        settings = self._settings
        request = JoinGroupRequest(
            settings.group_id,
            settings.session_timeout_ms,
            settings.rebalance_timeout_ms,
            self._member_id,
            None,
            PROTOCOL_TYPE,
            [(protocol, encode_member(self._info)) for protocol in settings.protocols],
        )
        sent, answer = await self._ask_and_wait(request)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
        check(answer.error_code, f"join group {settings.group_id}", right=self._right)
        self._prove(sent)
        return answer

    def _decide(self, joined: Any) -> list[tuple[str, bytes]]:
        """As leader, return the assignments of all members as (member ID, bytes)."""
        metadata: dict[str, bytes] = {member[0]: member[-1] for member in joined.members}
        infos = {one: decode_member(raw) for one, raw in metadata.items()}
        members = {member_id: info for member_id, info in infos.items() if info is not None}
        if len(members) < len(metadata):
            log.warning(
                "%s: ignoring %d members with undecodable metadata; no tasks assigned to them",
                self._where,
                len(metadata) - len(members),
            )
        assignments = self._assign(self._generation, members)
        answers, error = encode_answers(self._member_id, metadata, members, assignments)
        if error:
            log.error("%s: %s", self._where, error)
        return list(answers.items())

    async def _heartbeat(self) -> None:
        code = await self._ask_heartbeat(self._purpose)
        check(code, f"stay in group {self._settings.group_id}", right=self._right)
        if not isinstance(self._stream.membership, Joined):  # our clock was faster than the broker's: rejoin
            self.request_round()

    async def _ask_heartbeat(self, purpose: str) -> int:
        """Send a heartbeat and return the broker's error code; extend the session if it knows this member."""
        assert self._coordinator is not None
        request = HeartbeatRequest(self._settings.group_id, self._generation, self._member_id)
        sent, timeout_ms = session_clock(), self._settings.session_timeout_ms
        answer = await self._cluster.send(self._coordinator, request, purpose=purpose, timeout_ms=timeout_ms)
        if answer.error_code in _KNOWN_MEMBER:
            self._prove(sent)
        return int(answer.error_code)

    async def _ask_and_wait(self, request: Any) -> tuple[float, Any]:
        """Send a request that waits at the broker for other members; return when it was sent, and the response.

        Heartbeats on a second connection extend the session meanwhile. The wait ends with their error if they are not
        answered.
        """
        assert self._coordinator is not None
        timeout_ms = self._settings.rebalance_timeout_ms + _ROOM_MS
        sending = self._cluster.send(self._coordinator, request, purpose=self._purpose, timeout_ms=timeout_ms)
        sent, waiting = session_clock(), asyncio.ensure_future(sending)
        proving = asyncio.create_task(self._send_heartbeats(), name=f"heartbeats of group {self._settings.group_id}")
        try:
            await asyncio.wait((waiting, proving), return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                self._cluster.hang_up(self._coordinator, self._purpose)  # otherwise later requests wait behind this one
                raise proving.result()
            return sent, waiting.result()
        finally:
            waiting.cancel()
            proving.cancel()
            await asyncio.wait((waiting, proving))

    async def _send_heartbeats(self) -> ClusterError:
        """Send heartbeats until none was answered for a session timeout; return the last error."""
        answered = session_clock()
        pause = max(0.0, self._stream.contact + self._settings.heartbeat_interval_ms / 1000 - answered)
        while True:
            await asyncio.sleep(pause)
            pause = self._settings.heartbeat_interval_ms / 1000
            sent = session_clock()
            try:
                await self._ask_heartbeat(f"heartbeats of {self._purpose}")
            except ClusterError as error:
                if session_clock() - answered >= self._settings.session_timeout_ms / 1000:
                    return error
            else:
                answered = sent

    @property
    def _purpose(self) -> str:
        return f"group {self._settings.group_id}"

    def _prove(self, sent: float) -> None:
        """Extend the session: the coordinator answered this member's request, which was sent at ``sent``."""
        since = max(self._stream.contact, sent)
        self._stream.extend(since=since, lasting_ms=self._settings.session_timeout_ms)

    # -- errors

    async def _recover(self, error: ClusterError, pause: float) -> float:
        """Update the state after an error; return the seconds to wait before the next step."""
        self._trouble = error
        code = error.code if isinstance(error, BrokerError) else None
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._rejoin = True
            return 0.0
        if code in _FIND_AGAIN or isinstance(error, Unreachable | RequestTimedOut):
            self._coordinator = None
            if not isinstance(self._stream.membership, Joined):
                self._stream.publish(Lost(reason=f"{self._where}: {error}"))
            return pause
        if code in _NOT_A_MEMBER:
            self._rejoin = True
            self._stream.stop_clock()
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._member_id = ""
            if isinstance(self._stream.membership, Joined):
                self._stream.publish(
                    Lost(reason=f"{self._where}: the broker removed this node from the group ({error})")
                )
            return pause
        if error.retriable:
            return pause
        self._rejoin = True
        self._stream.stop_clock()
        if code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            self._member_id = ""
            self._stream.publish(HeldByOther(reason=await describe_holder(self._cluster, self._settings.group_id)))
        else:
            self._stream.publish(Lost(reason=f"{self._where}: {error}{_ADVICE.get(code or 0, _UNEXPECTED)}"))
        return max(pause, self._settings.heartbeat_interval_ms / 1000)

    def _overdue(self) -> Lost:
        trouble = self._trouble or f"the coordinator does not answer: {cut_off(self._cluster.settings)}"
        return Lost(reason=f"{self._where}: no contact: {trouble}")

    async def _leave(self) -> None:
        if not self._member_id or self._coordinator is None:
            return
        request = LeaveGroupRequest(self._settings.group_id, self._member_id)
        purpose = f"leave {self._settings.group_id}"  # a join that was cut off may still block the other connection
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self._cluster.send(self._coordinator, request, purpose=purpose)
        except (ClusterError, TimeoutError) as error:
            log.info("%s: LeaveGroup failed; the other members wait for the session timeout: %s", self._where, error)

    @property
    def _right(self) -> Right:
        return on_group(Operation.READ, self._settings.group_id, self._cluster.settings.alias)

    @property
    def _where(self) -> str:
        alias = self._cluster.settings.alias
        return f"group {self._settings.group_id}" + (f" on cluster {alias}" if alias else "")


_UNEXPECTED = ": this error is unexpected; see the log of the group's coordinator"
_ADVICE: dict[int, str] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: ": the broker failed, see its log; it cannot store the group if that takes more"
    " than max.message.bytes of topic __consumer_offsets: then increase that, or reduce tasks.max or the number of"
    " nodes",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "",
    ErrorCode.INVALID_SESSION_TIMEOUT: ": session.timeout.ms must be between the broker's"
    " group.min.session.timeout.ms and group.max.session.timeout.ms",
    ErrorCode.GROUP_MAX_SIZE_REACHED: ": the broker's group.max.size does not allow another node",
}
