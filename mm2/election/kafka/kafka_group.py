"""Election by Kafka's group membership protocol: the classic JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

The group has its own protocol type, so the broker rejects Java's MirrorMaker (type "connect") in this group and this
node in Java's (INCONSISTENT_GROUP_PROTOCOL), and tools do not treat it as a consumer group.
docs/adr/0001-group-membership.md explains why aiokafka's GroupCoordinator is not used.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass

from mm2.core.access.rights import on_group
from mm2.core.settings.election import BACKENDS
from mm2.core.topics.acls import Operation
from mm2.election.kafka.group_messages import (
    ELECTING,
    HOLDING,
    PROTOCOL_TYPE,
    decode_answer,
    decode_member,
    encode_answers,
    encode_member,
)
from mm2.election.membership_stream import MembershipStream, SessionElection
from mm2.election.protocol import Assign, HeldByOther, Joined, Lost, MemberInfo
from mm2.kafka.backoff import Backoff
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.connection.diagnosis import cut_off
from mm2.kafka.errors import NOT_YET_S, BrokerError, ClusterError, RequestTimedOut, Unreachable, is_not_yet
from mm2.kafka.groups.group_protocol import group_protocol
from mm2.kafka.groups.member_requests import COORDINATOR_MOVED, NOT_A_MEMBER, MemberRequests, MemberTerms
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.membership_requests import JoinedGroup

log = logging.getLogger(__name__)

EXPECTING_MS = 250
"""Heartbeat interval while a task moves between nodes: it does not run until the next rebalance."""

_JOIN_AGAIN = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.MEMBER_ID_REQUIRED})

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


class _StreamSession:
    """The session of a membership that `MembershipStream` publishes."""

    def __init__(self, stream: MembershipStream, timeout_ms: int) -> None:
        self._stream = stream
        self._timeout_ms = timeout_ms

    @property
    def contact(self) -> float:
        return self._stream.contact

    def prove(self, sent: float, *, rebalancing: bool = False) -> None:
        del rebalancing  # the tasks run on meanwhile, so the rebalance timeout says nothing about the session
        self._stream.extend(since=max(self._stream.contact, sent), lasting_ms=self._timeout_ms)


class KafkaGroup(SessionElection):
    """An `Election`. One task sends requests to the coordinator; a timer ends the membership if none is answered.

    Invariant in addition to the port's and to those of `MemberRequests`:
    D. The session timeout starts when a request is sent, not when it is answered.
    """

    def __init__(self, cluster: Cluster, settings: GroupSettings, info: MemberInfo, assign: Assign) -> None:
        group = f"group {settings.group_id}"
        super().__init__(info, assign, store=group, name=group)
        self._cluster = cluster
        self._settings = settings
        member = MemberTerms(
            group_id=settings.group_id,
            protocol_type=PROTOCOL_TYPE,
            client_id=cluster.settings.client_id,
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            right=on_group(Operation.READ, settings.group_id, cluster.settings.alias),
        )
        session = _StreamSession(self._stream, settings.session_timeout_ms)
        self._requests = MemberRequests(cluster, member, session)
        self._rejoin = True
        self._expecting = False
        self._last_error: ClusterError | None = None
        self._failing_since: float | None = None

    @property
    def contact(self) -> float:
        """When the newest answered request was sent that proved the membership.

        -inf between the responses to JoinGroup and SyncGroup, which belong to the next generation.
        """
        membership = self._stream.membership
        same = isinstance(membership, Joined) and membership.generation == self._requests.generation.generation
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
        if self._requests.has_coordinator:  # otherwise a cluster that is down would delay the end
            await self._requests.leave()

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
                self._last_error = self._failing_since = None
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
        await self._requests.find()
        if self._rejoin:
            await self._round()
        else:
            await self._heartbeat()

    async def _round(self) -> None:
        """Join and sync; as leader, with the assignments of all members."""
        self._rejoin = False
        self._wake.clear()
        try:
            metadata = encode_member(self._info)
            log.debug("%s: joining", self._where)
            joined = await self._requests.join([(one, metadata) for one in self._settings.protocols])
            args = self._where, joined.generation, joined.member_id, joined.leader_id
            log.debug("%s: joined generation %d as %s; the leader is %s", *args)
            answers = self._decide(joined) if joined.leader_id == joined.member_id else {}
            raw = await self._requests.synchronize(answers)
        except ClusterError:
            self._rejoin = True
            raise
        answer = decode_answer(raw)
        if answer is None:
            self._stream.publish(
                Lost(reason=f"{self._where}: ignoring assignment from the leader: unknown format (different version?)")
            )
            return
        self._stream.publish(
            Joined(
                generation=joined.generation,
                member_id=joined.member_id,
                leader_id=answer.leader_id,
                members=answer.members,
                assignment=answer.assignment,
                error=f"{self._where}: {answer.error}" if answer.error else None,
            )
        )

    def _decide(self, joined: JoinedGroup) -> dict[str, bytes]:
        """As leader, return the assignments of all members by member ID."""
        metadata = {member.member_id: member.metadata for member in joined.members}
        infos = {one: decode_member(raw) for one, raw in metadata.items()}
        members = {member_id: info for member_id, info in infos.items() if info is not None}
        if len(members) < len(metadata):
            log.warning(
                "%s: ignoring %d members with undecodable metadata; no tasks assigned to them",
                self._where,
                len(metadata) - len(members),
            )
        assignments = self._assign(joined.generation, members)
        answers, error = encode_answers(joined.member_id, metadata, members, assignments)
        if error:
            log.error("%s: %s", self._where, error)
        return answers

    async def _heartbeat(self) -> None:
        await self._requests.heartbeat()
        if not isinstance(self._stream.membership, Joined):  # our clock was faster than the broker's: rejoin
            self.request_round()

    # -- errors

    async def _recover(self, error: ClusterError, pause: float) -> float:
        """Update the state after an error; return the seconds to wait before the next step."""
        self._last_error = error
        self._failing_since = self._failing_since or time.monotonic()
        log.debug("%s: %s", self._where, error)
        code = error.code if isinstance(error, BrokerError) else None
        if code in _JOIN_AGAIN:
            self._rejoin = True
            return 0.0
        if code in COORDINATOR_MOVED or isinstance(error, Unreachable | RequestTimedOut):
            self._requests.find_again()
            if not isinstance(self._stream.membership, Joined):
                is_expected = is_not_yet(error) and time.monotonic() - self._failing_since < NOT_YET_S
                self._stream.publish(Lost(reason=f"{self._where}: {error}", is_expected=is_expected))
            return pause
        if code in NOT_A_MEMBER:
            self._rejoin = True
            self._stream.stop_clock()
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._requests.forget_member_id()
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
            self._requests.forget_member_id()
            self._stream.publish(HeldByOther(reason=await describe_holder(self._cluster, self._settings.group_id)))
        else:
            self._stream.publish(Lost(reason=f"{self._where}: {error}{_ADVICE.get(code or 0, _UNEXPECTED)}"))
        return max(pause, self._settings.heartbeat_interval_ms / 1000)

    def _overdue(self) -> Lost:
        last_error = self._last_error or f"the coordinator does not answer: {cut_off(self._cluster.settings)}"
        return Lost(reason=f"{self._where}: no contact: {last_error}")

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
