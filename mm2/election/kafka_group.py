"""Election by Kafka's group membership protocol: the classic JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

The protocol type is our own, so the broker refuses Java's MirrorMaker (type "connect") in the same group and us in its
(INCONSISTENT_GROUP_PROTOCOL), and nothing takes the group for a consumer group. Why not aiokafka's GroupCoordinator:
docs/adr/0001-group-membership.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

from mm2.election.feed import MembershipFeed
from mm2.election.group_holder import describe_holder
from mm2.election.group_messages import (
    ELECTING,
    PROTOCOL_TYPE,
    decode_answer,
    decode_member,
    encode_answer,
    encode_member,
)
from mm2.election.protocol import Assign, HeldByOther, Joined, Lost, MemberInfo, Membership
from mm2.kafka.backoff import Backoff
from mm2.kafka.cluster import Cluster, CoordinatorKind
from mm2.kafka.diagnosis import cut_off
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import BrokerError, ClusterError, RequestTimedOut, Unreachable, check

log = logging.getLogger(__name__)

_ROOM_MS = 5_000  # above what the broker may wait, for its answer to come back
HURRIED_MS = 250
"""Heartbeat interval while a task is on its way from one node to another: nobody runs it until the next round."""

_LEAVE_SECONDS = 3.0  # to say goodbye; without it the others wait for the session to run out

_FIND_AGAIN = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_NOT_A_MEMBER = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID})


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Worker keys of the same names with Java's defaults (mm2-compat §1.5); milliseconds. ``protocols`` tell what the
    group is used for; a broker refuses a member that has none in common with all others."""

    group_id: str
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 60_000
    protocols: tuple[str, ...] = (ELECTING,)


class KafkaGroup:
    """An `Election`. One task speaks to the coordinator; a timer of our own ends the membership when it cannot.

    Invariants besides the port's:
    D. The clock of the session starts when a request is sent, not when it is answered.
    E. Each group has a connection of its own: a join waits at the broker for the other members, and what comes after it
       on the same connection would wait too.
    """

    def __init__(self, cluster: Cluster, settings: GroupSettings, info: MemberInfo, assign: Assign) -> None:
        self._cluster = cluster
        self._settings = settings
        self._info = info
        self._assign = assign
        self._coordinator: int | None = None
        self._member_id = ""
        self._generation = -1
        self._rejoin = True
        self._hurried = False
        self._wake = asyncio.Event()
        self._feed = MembershipFeed(Lost(reason=f"joining group {settings.group_id}"), self._overdue)
        self._contact = 0.0  # loop time of the last request the coordinator answered as to a member
        self._trouble: ClusterError | None = None

    @property
    def membership(self) -> Membership:
        """As of now."""
        return self._feed.membership

    def update(self, info: MemberInfo, *, quiet: bool = False) -> None:
        """Say something new of ourselves; a round begins if it differs from what was said last and is not ``quiet``."""
        differs = encode_member(info) != encode_member(self._info)
        self._info = info
        if differs and not quiet:
            self.request_round()

    def hurry(self, wanted: bool) -> None:
        """Whether a round is expected: heartbeats, whose answers tell of it, then go out more often."""
        if wanted and not self._hurried:
            self._wake.set()
        self._hurried = wanted

    def request_round(self) -> None:
        """Join again. The broker begins a round if we lead or say something new, else answers from the last one."""
        self._rejoin = True
        self._wake.set()

    def events(self) -> AsyncIterator[Membership]:
        """Every change from the start, for one reader. Ends when the context is left; raises what ``assign`` raised."""
        return self._feed.changes()

    async def __aenter__(self) -> Self:
        self._feed.begin(self._run(), f"group {self._settings.group_id}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._feed.end()
        self._feed.stop_clock()
        await self._leave()

    # -- one step after the other

    async def _run(self) -> None:
        settings = self._cluster.settings
        backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms)
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
        """Until the next heartbeat is due, or there is something to do."""
        interval_ms = self._settings.heartbeat_interval_ms
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(interval_ms, HURRIED_MS) / 1000 if self._hurried else interval_ms / 1000):
                await self._wake.wait()
        if not self._rejoin:
            self._wake.clear()

    async def _step(self) -> None:
        if self._coordinator is None:
            self._coordinator = await self._cluster.coordinator(CoordinatorKind.GROUP, self._settings.group_id)
        if self._rejoin:
            await self._round()
        else:
            await self._heartbeat()

    async def _round(self) -> None:
        """Join, and sync: as leader with everybody's answer."""
        self._rejoin = False
        self._wake.clear()
        try:
            joined = await self._join()
            self._member_id, self._generation = joined.member_id, joined.generation_id
            answers = self._decide(joined) if joined.leader_id == joined.member_id else []
            request = SyncGroupRequest(self._settings.group_id, self._generation, self._member_id, None, answers)
            synced = await self._ask(request, "synchronize", self._settings.rebalance_timeout_ms + _ROOM_MS)
        except ClusterError:
            self._rejoin = True
            raise
        answer = decode_answer(synced.member_assignment)
        if answer is None:
            self._feed.say(
                Lost(reason=f"{self._where}: the leader's answer cannot be read: does it run another version?")
            )
            return
        leader_id, members, assignment = answer
        self._feed.say(
            Joined(
                generation=self._generation,
                member_id=self._member_id,
                leader_id=leader_id,
                members=members,
                assignment=assignment,
            )
        )

    async def _join(self) -> Any:
        try:
            return await self._ask_to_join()
        except BrokerError as error:
            if error.code != ErrorCode.MEMBER_ID_REQUIRED:
                raise
        return await self._ask_to_join()  # now with the id that came with the refusal (KIP-394)

    async def _ask_to_join(self) -> Any:
        settings = self._settings
        self._proven(settings.rebalance_timeout_ms)  # the broker counts a waiting member as alive
        request = JoinGroupRequest(
            settings.group_id,
            settings.session_timeout_ms,
            settings.rebalance_timeout_ms,
            self._member_id,
            None,
            PROTOCOL_TYPE,
            [(protocol, encode_member(self._info)) for protocol in settings.protocols],
        )
        answer = await self._send(request, settings.rebalance_timeout_ms + _ROOM_MS)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
        check(answer.error_code, f"join group {settings.group_id}")
        return answer

    def _decide(self, joined: Any) -> list[tuple[str, bytes]]:
        """The leader's work: (member id, answer) for all."""
        ids = [member[0] for member in joined.members]
        infos = {member[0]: decode_member(member[-1]) for member in joined.members}
        members = {member_id: info for member_id, info in infos.items() if info is not None}
        if len(members) < len(ids):
            log.warning("%s: %d members cannot be read and get nothing", self._where, len(ids) - len(members))
        assignments = self._assign(self._generation, members)
        return [(one, encode_answer(self._member_id, members, assignments.get(one))) for one in ids]

    async def _heartbeat(self) -> None:
        request = HeartbeatRequest(self._settings.group_id, self._generation, self._member_id)
        await self._ask(request, "stay in", self._settings.session_timeout_ms)
        if not isinstance(self._feed.membership, Joined):  # our clock was faster than the broker's: take part again
            self.request_round()

    async def _ask(self, request: Any, verb: str, timeout_ms: int) -> Any:
        """Send something that proves us alive to the coordinator."""
        sent = asyncio.get_running_loop().time()
        answer = await self._send(request, timeout_ms)
        check(answer.error_code, f"{verb} group {self._settings.group_id}")
        self._contact = sent
        self._proven(self._settings.session_timeout_ms, since=sent)
        return answer

    async def _send(self, request: Any, timeout_ms: int) -> Any:
        assert self._coordinator is not None
        purpose = f"group {self._settings.group_id}"
        return await self._cluster.send(self._coordinator, request, purpose=purpose, timeout_ms=timeout_ms)

    # -- trouble

    async def _recover(self, error: ClusterError, pause: float) -> float:
        """Take the error in and say how many seconds to wait."""
        self._trouble = error
        code = error.code if isinstance(error, BrokerError) else None
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._rejoin = True
            return 0.0
        if code in _FIND_AGAIN or isinstance(error, Unreachable | RequestTimedOut):
            self._coordinator = None
            if isinstance(self._feed.membership, Joined):  # a join that failed gives no more time than a heartbeat
                self._proven(self._settings.session_timeout_ms, since=self._contact)
            else:
                self._feed.say(Lost(reason=f"{self._where}: {error}"))
            return pause
        if code in _NOT_A_MEMBER:
            self._rejoin = True
            self._feed.stop_clock()
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._member_id = ""
            if isinstance(self._feed.membership, Joined):
                self._feed.say(Lost(reason=f"{self._where}: the broker no longer counts us as a member ({error})"))
            return pause
        if error.retriable:
            return pause
        self._rejoin = True
        self._feed.stop_clock()
        if code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            self._member_id = ""
            self._feed.say(HeldByOther(reason=await describe_holder(self._cluster, self._settings.group_id)))
        else:
            self._feed.say(Lost(reason=f"{self._where}: {error}{_ADVICE.get(code or 0, '')}"))
        return max(pause, self._settings.heartbeat_interval_ms / 1000)

    def _proven(self, lasting_ms: int, *, since: float | None = None) -> None:
        begin = asyncio.get_running_loop().time() if since is None else since
        self._feed.prove(since=begin, lasting_ms=lasting_ms)

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
            log.info("%s: left without a goodbye: %s", self._where, error)

    @property
    def _where(self) -> str:
        alias = self._cluster.settings.alias
        return f"group {self._settings.group_id}" + (f" on cluster {alias}" if alias else "")


_ADVICE: dict[int, str] = {
    ErrorCode.GROUP_AUTHORIZATION_FAILED: ": grant our principal Read on that group",
    ErrorCode.INVALID_SESSION_TIMEOUT: ": session.timeout.ms must be between the broker's"
    " group.min.session.timeout.ms and group.max.session.timeout.ms",
    ErrorCode.GROUP_MAX_SIZE_REACHED: ": the broker's group.max.size allows no further node",
}
