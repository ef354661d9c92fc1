"""A member's requests to the coordinator of its group: join, synchronize, heartbeat, leave.

They are those of consumers and of the members of an election, which differ in the protocol type.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from aiokafka.protocol.group import LeaveGroupRequest

from mm2.core.access.rights import Right
from mm2.core.topics.acls import Operation
from mm2.kafka.client.cluster import Cluster, CoordinatorKind
from mm2.kafka.clock import session_clock
from mm2.kafka.errors import BrokerError, ClusterError, check
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.membership_requests import (
    Generation,
    HeartbeatRequest,
    JoinedGroup,
    JoinGroupRequest,
    SyncGroupRequest,
)


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel the tasks and wait for their end; their exceptions count as seen."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def unless(event: asyncio.Event, work: Coroutine[Any, Any, None], *, name: str) -> None:
    """Run ``work`` as task ``name`` and raise its exceptions; cancel it when ``event`` is set."""
    task = asyncio.create_task(work, name=name)
    waiting = asyncio.create_task(event.wait(), name=f"{name}: {unless.__name__}")
    try:
        await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
    finally:
        await end(task, waiting)


T = TypeVar("T")

log = logging.getLogger(__name__)

_ROOM_MS = 5_000  # added to the broker's maximum wait, so that its response can arrive, as in Java
_LEAVE_SECONDS = 3.0  # timeout of LeaveGroup; without it the others wait for the session timeout
_ATTEMPTS = 3  # heartbeats in a session timeout if the coordinator hangs, which another broker may replace meanwhile
_NO_GENERATION = -1

_KNOWN_MEMBER = frozenset({ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS})


COORDINATOR_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
NOT_A_MEMBER = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberTerms:
    """What a member tells the coordinator about itself. Durations are milliseconds.

    ``client_id`` is the start of the member ID that the broker assigns. ``protocol_type``: ``consumer``, or another use
    of the group, for which the broker rejects consumers. ``right``: what the member needs, for messages.
    """

    group_id: str
    protocol_type: str
    client_id: str
    session_timeout_ms: int
    heartbeat_interval_ms: int
    rebalance_timeout_ms: int
    instance_id: str | None = None
    right: Right | None = None


class ProvenSession(Protocol):
    """The clock of a membership, which the responses to its requests extend. Times are seconds of `session_clock`."""

    @property
    def contact(self) -> float:
        """When the newest answered request was sent that proved the membership."""

    def prove(self, sent: float, *, rebalancing: bool = False) -> None:
        """Extend the session: the coordinator knew this member in its response to a request sent at ``sent``."""


class MemberRequests:
    """Methods raise ClusterError and do not retry. `find` comes first, and again after `find_again`.

    A. A join waits at the broker for the other members, and later requests on the same connection wait behind it. So
       joins, heartbeats and commits have connections of their own, also if several members share a `Cluster`.
    B. While a join waits, heartbeats prove that the coordinator is alive; if none is answered for a session timeout,
       the wait ends with their error.
    """

    def __init__(self, cluster: Cluster, group: MemberTerms, session: ProvenSession) -> None:
        self._cluster = cluster
        self._group = group
        self._session = session
        self._coordinator: int | None = None
        self._member_id = ""
        self._generation = _NO_GENERATION
        self._protocol = ""  # the assignor that the broker has chosen in the last join

    @property
    def generation(self) -> Generation:
        """The member as of the last join."""
        group = self._group
        return Generation(
            group_id=group.group_id,
            generation=self._generation,
            member_id=self._member_id,
            instance_id=group.instance_id,
        )

    def purpose(self, what: str) -> str:
        """Return the purpose of a connection of this member (`Cluster.send`)."""
        return f"{what} of {self._group.client_id} in group {self._group.group_id}"

    @property
    def has_coordinator(self) -> bool:
        """Whether the coordinator is known."""
        return self._coordinator is not None

    async def find(self) -> None:
        """Look up the coordinator, unless it is known."""
        if self._coordinator is None:
            self._coordinator = await self._cluster.coordinator(
                CoordinatorKind.GROUP, self._group.group_id, operation=Operation.READ
            )

    def find_again(self) -> None:
        """Forget the coordinator: it has moved, or does not answer."""
        self._coordinator = None

    def forget_member_id(self) -> None:
        """Join as a new member next time: the broker does not know the member ID."""
        self._member_id = ""

    async def join(self, protocols: Sequence[tuple[str, bytes]]) -> JoinedGroup:
        """Join and wait for the other members. ``protocols``: names with the metadata for each, the preferred first.

        MEMBER_ID_REQUIRED: the broker has sent a member ID, with which to join again (KIP-394).
        """
        group = self._group
        request = JoinGroupRequest(
            group.group_id,
            client_id=group.client_id,
            protocol_type=group.protocol_type,
            session_timeout_ms=group.session_timeout_ms,
            rebalance_timeout_ms=group.rebalance_timeout_ms,
            member_id=self._member_id,
            instance_id=group.instance_id,
            protocols=protocols,
        )
        sent, joined = await self._send_and_wait(request)
        assert isinstance(joined, JoinedGroup)
        if joined.error in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self._member_id = joined.member_id
        check(joined.error, f"join group {group.group_id}", right=group.right)
        self._generation, self._protocol = joined.generation, joined.protocol
        self._session.prove(sent)
        return joined

    async def synchronize(self, assignments: Mapping[str, bytes]) -> bytes:
        """Send the leader's assignments, none from other members, and wait for this member's."""
        request = SyncGroupRequest(
            self.generation,
            protocol_type=self._group.protocol_type,
            protocol=self._protocol,
            assignments=assignments,
        )
        sent, synced = await self._send_and_wait(request)
        check(synced.error, f"synchronize group {self._group.group_id}", right=self._group.right)
        self._session.prove(sent)
        return bytes(synced.assignment)

    async def heartbeat(self) -> None:
        """Extend the session. REBALANCE_IN_PROGRESS extends it, too."""
        check(await self._send_heartbeat(), f"stay in group {self._group.group_id}", right=self._group.right)

    async def leave(self) -> None:
        """Leave the group, unless the member is static (KIP-345): it returns before its session ends. Does not raise.

        Takes at most three seconds.
        """
        if self._group.instance_id is not None or not self._member_id:
            return
        request = LeaveGroupRequest(self._group.group_id, self._member_id)
        self._member_id = ""
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self.find()
                assert self._coordinator is not None
                await self._cluster.send(self._coordinator, request, purpose=self.purpose("heartbeats"))
        except (ClusterError, TimeoutError) as error:
            log.info(
                "group %s: %s: LeaveGroup failed; the other members wait for the session timeout: %s",
                self._group.group_id,
                self._group.client_id,
                error,
            )

    async def wait_beside_heartbeats(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of ``work``, which waits for the broker or for other members."""
        waiting = asyncio.create_task(work, name=f"joining group {self._group.group_id}")
        proving = asyncio.create_task(self._send_heartbeats(), name=f"heartbeats of group {self._group.group_id}")
        try:
            await asyncio.wait((waiting, proving), return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                raise proving.result()
            return waiting.result()
        finally:
            await end(waiting, proving)

    async def _send_and_wait(self, request: Any) -> tuple[float, Any]:
        """Return when ``request`` was sent, and the response."""
        assert self._coordinator is not None
        purpose, timeout_ms = self.purpose("joins"), self._group.rebalance_timeout_ms + _ROOM_MS
        coordinator, sent, answered = self._coordinator, session_clock(), False
        sending = self._cluster.send(coordinator, request, purpose=purpose, timeout_ms=timeout_ms)
        try:
            answer = await self.wait_beside_heartbeats(sending)
            answered = True
        finally:
            if not answered:  # otherwise later requests would wait behind this one
                self._cluster.disconnect(coordinator, purpose)
        return sent, answer

    async def _send_heartbeat(self) -> int:
        """Send a heartbeat and return the error code; extend the session if the broker knows this member."""
        await self.find()
        assert self._coordinator is not None
        sent = session_clock()
        code: int = await self._cluster.send(
            self._coordinator,
            HeartbeatRequest(self.generation),
            purpose=self.purpose("heartbeats"),
            timeout_ms=self._group.session_timeout_ms // _ATTEMPTS,
        )
        if code in _KNOWN_MEMBER:
            self._session.prove(sent, rebalancing=code == ErrorCode.REBALANCE_IN_PROGRESS)
        return code

    async def _send_heartbeats(self) -> ClusterError:
        """Send heartbeats until none was answered for a session timeout, or the coordinator has moved; return why."""
        interval = self._group.heartbeat_interval_ms / 1000
        answered = session_clock()
        pause = max(0.0, self._session.contact + interval - answered)
        while True:
            await asyncio.sleep(pause)
            pause, sent = interval, session_clock()
            try:
                code = await self._send_heartbeat()
            except ClusterError as error:
                if session_clock() - answered >= self._group.session_timeout_ms / 1000:
                    return error
            else:
                if code == ErrorCode.NOT_COORDINATOR:
                    return BrokerError(code, f"stay in group {self._group.group_id}")
                answered = sent
