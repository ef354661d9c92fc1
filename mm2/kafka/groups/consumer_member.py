"""A member of a consumer group: the classic protocol of Java's consumer, with eager rebalances, in one task.

Java's consumers with one of its assignors can be members of the same group, and each can lead it.
docs/adr/0001-group-membership.md explains why aiokafka's GroupCoordinator is not used.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from mm2.core.mirror1.assignors import ASSIGNORS, Subscriber
from mm2.core.mirror1.settings import GroupMembership
from mm2.core.naming.names import TopicPartition
from mm2.core.wire.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from mm2.core.wire.formats import FormatError
from mm2.kafka.backoff import Backoff
from mm2.kafka.chunks import chunks
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.clock import session_clock
from mm2.kafka.errors import BrokerError, ClusterError, RequestTimedOut, Unreachable
from mm2.kafka.groups.group_coordinators import ask_coordinators
from mm2.kafka.groups.groups import COMMIT_BYTES, commit_row_bytes
from mm2.kafka.groups.member_errors import MembershipRefused, member_commit_error, refused
from mm2.kafka.groups.member_requests import COORDINATOR_MOVED, NOT_A_MEMBER, MemberRequests, MemberTerms, end, unless
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.group_requests import CONSUMER_PROTOCOL
from mm2.kafka.protocol.membership_requests import Generation, JoinedGroup, MemberCommitRequest
from mm2.kafka.retrying import API_TIMEOUT_MS

T = TypeVar("T")

log = logging.getLogger(__name__)

_JOIN_AGAIN = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.MEMBER_ID_REQUIRED})
_NEVER = float("-inf")


PartitionsOf = Callable[[Collection[str]], Awaitable[Mapping[str, int]]]
"""Returns the partition counts of those topics that exist; may raise ClusterError."""


Outcome = dict[TopicPartition, ClusterError | None]

_RETRIED = frozenset(  # of the whole request: the coordinator has moved or could not replicate the commit in time
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


async def commit_as_member(
    cluster: Cluster,
    member: Generation,
    offsets: Mapping[TopicPartition, int],
    *,
    is_current: Callable[[], bool],
    purpose: str,
    timeout_ms: int,
) -> Outcome:
    """Return None or the error for each partition; `CommitFailed` if the generation is over.

    Is retried while the coordinator moves, for ``timeout_ms``, and as long as ``is_current`` returns True.
    """
    group = member.group_id

    async def ask(node_id: int, _: Sequence[str]) -> dict[str, Outcome]:
        outcome: Outcome = {}
        for rows in chunks(offsets.items(), COMMIT_BYTES, lambda row: commit_row_bytes(group, row[0], "")):
            if not is_current():
                return {group: outcome | generation_ended(group, offsets.keys() - outcome.keys())}
            request = MemberCommitRequest(member, dict(rows))
            codes: dict[TopicPartition, int] = await cluster.send(node_id, request, purpose=purpose)
            for one, code in codes.items():
                outcome[one] = member_commit_error(code, group, one) if code else None
                if code in _RETRIED:
                    raise member_commit_error(code, group, one)
        return {group: outcome}

    if not offsets:
        return {}
    found = (await ask_coordinators(cluster, [group], ask, groups_a_request=1, timeout_ms=timeout_ms))[group]
    return dict.fromkeys(offsets, found) if isinstance(found, ClusterError) else found


def generation_ended(group: str, partitions: Iterable[TopicPartition]) -> Outcome:
    """Return `CommitFailed` for partitions that a member does not have any more."""
    return {one: member_commit_error(ErrorCode.UNKNOWN_MEMBER_ID, group, one) for one in partitions}


class GroupLeader:
    """The assignments of one member while it leads, and what they were computed from."""

    def __init__(self, partitions_of: PartitionsOf, where: str) -> None:
        """``where`` names the member in log lines."""
        self._partitions_of = partitions_of
        self._where = where
        self._topics: set[str] = set()  # of all members
        self._counts: dict[str, int] | None = None  # that were assigned; None: another member leads

    @property
    def leads(self) -> bool:
        """Whether this member led the last round."""
        return self._counts is not None

    def step_down(self) -> None:
        """Forget the last round: another member may lead."""
        self._counts = None

    async def assign(self, joined: JoinedGroup) -> dict[str, bytes]:
        """Return the assignments by member ID; none if the last ones are still valid (KIP-814). Raises ClusterError."""
        subscribers = []
        for member in joined.members:
            try:
                topics = decode_subscription(member.metadata)
            except FormatError as error:
                log.warning("%s: nothing is assigned to member %s: %s", self._where, member.member_id, error)
                topics = []
            subscribers.append(Subscriber(member_id=member.member_id, topics=topics, instance_id=member.instance_id))
        self._topics = {topic for member in subscribers for topic in member.topics}
        counts = self._counts = dict(await self._partitions_of(self._topics))
        if joined.skip_assignment:
            return {}
        found = ASSIGNORS[joined.protocol](subscribers, counts)
        return {member_id: encode_assignment(partitions) for member_id, partitions in found.items()}

    async def is_outdated(self) -> bool:
        """Return whether the partition counts have changed since `assign`. Raises ClusterError."""
        return self.leads and dict(await self._partitions_of(self._topics)) != self._counts


class AssignmentHandler(Protocol):
    """Starts and stops partitions. Exceptions end `ConsumerMember.run`, which raises them.

    Before the next `assigned` comes `revoked`, or `lost`, or a `revoked` that is cancelled and then `lost`.
    """

    async def assigned(self, partitions: set[TopicPartition], generation: int) -> None:
        """Start these partitions; there are no others. Is cancelled if the membership ends meanwhile."""

    async def revoked(self) -> None:
        """Stop all partitions, complete what is in flight and commit; another member may get them afterwards.

        The membership continues until this returns, but no longer than max.poll.interval.ms. Is cancelled if it ends.
        """

    def lost(self) -> None:
        """Stop all partitions at once and commit nothing: other members may have them already. Must not raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipStatus:
    """A member's state.

    ``generation`` and ``partitions`` are None without an assignment. ``last_error`` is the error that is being retried.
    """

    generation: int | None = None
    partitions: frozenset[TopicPartition] | None = None
    is_leader: bool = False
    last_error: str | None = None


class MemberSession:
    """The clock of one membership in one event loop. Times are seconds of `session_clock`.

    The broker removes a member that is silent for session.timeout.ms, and one that has not rejoined
    max.poll.interval.ms after the start of a rebalance. Both are measured so that this clock is never late:

    A. The session timeout starts when a request is sent, not when it is answered.
    B. A rebalance starts at the earliest when the last request was sent whose response did not report one.
    C. A session that is over is not extended; it ends by `expired` first, also if the loop's timer is late.
    """

    def __init__(
        self,
        group: GroupMembership,
        expired: Callable[[str], None],
        *,
        clock: Callable[[], float] = session_clock,
    ) -> None:
        """``expired`` is called with the reason, once for each `hold`."""
        self._group = group
        self._expired = expired
        self._clock = clock
        self._contact = _NEVER  # when the newest answered request was sent
        self._quiet = _NEVER  # when the newest one was sent whose response did not report a rebalance
        self._held = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def contact(self) -> float:
        """When the newest answered request was sent that proved the membership."""
        return self._contact

    def certain_for(self) -> float:
        """Return for how many seconds the partitions are certainly this member's; 0 if it has none."""
        return max(0.0, self._until() - self._clock()) if self._held else 0.0

    def hold(self) -> None:
        """Start the clock: the member has partitions from now on."""
        self._held = True
        self._set_timer()

    def release(self) -> None:
        """Stop the clock: the member has no partitions any more."""
        self._held = False
        self._stop_timer()

    def prove(self, sent: float, *, rebalancing: bool = False) -> None:
        """Extend the session: the coordinator knew this member in its response to a request sent at ``sent``."""
        if self._held and self._clock() >= self._until():
            self._expire()
        self._contact = max(self._contact, sent)
        if not rebalancing:
            self._quiet = max(self._quiet, sent)
        if self._held:
            self._set_timer()

    def _until(self) -> float:
        silent = self._contact + self._group.session_timeout_ms / 1000
        return min(silent, self._quiet + self._group.max_poll_interval_ms / 1000)

    def _set_timer(self) -> None:
        self._stop_timer()
        delay = max(0.0, self._until() - self._clock())
        self._timer = asyncio.get_running_loop().call_later(delay, self._check)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        """End the session if its time is over; the loop's clock can be a little ahead."""
        if self._clock() < self._until():
            self._set_timer()
        else:
            self._expire()

    def _expire(self) -> None:
        group = self._group
        if self._contact + group.session_timeout_ms / 1000 <= self._clock():
            reason = f"the coordinator answered no heartbeat for session.timeout.ms ({group.session_timeout_ms} ms)"
        else:
            limit = f"max.poll.interval.ms ({group.max_poll_interval_ms} ms)"
            reason = f"a rebalance was not joined within {limit}: records in flight took too long"
        self.release()
        self._expired(reason)


class ConsumerMember:
    """One member. Run `run` in a task; all other methods are for the same event loop.

    Recovers from restarts and moves of the coordinator and from suspension of the process.
    """

    def __init__(
        self,
        cluster: Cluster,
        group: GroupMembership,
        *,
        client_id: str,
        topics: Callable[[], Collection[str]],
        partitions_of: PartitionsOf,
        handler: AssignmentHandler,
    ) -> None:
        """``topics`` returns the current subscription. ``partitions_of`` is called while this member leads.

        ``client_id`` is the start of the member ID; members of a group that share ``cluster`` need different ones.
        """
        self._cluster = cluster
        self._group = group
        self._topics = topics
        self._handler = handler
        self._where = f"group {group.group_id}: {client_id}"
        self._session = MemberSession(group, self._lose)
        member = MemberTerms(
            group_id=group.group_id,
            protocol_type=CONSUMER_PROTOCOL,
            client_id=client_id,
            session_timeout_ms=group.session_timeout_ms,
            heartbeat_interval_ms=group.heartbeat_interval_ms,
            rebalance_timeout_ms=group.max_poll_interval_ms,
            instance_id=group.instance_id,
        )
        self._requests = MemberRequests(cluster, member, self._session)
        self._assigned: tuple[Generation, frozenset[TopicPartition]] | None = None
        self._joined_with = b""  # the metadata of the last join
        self._leader = GroupLeader(partitions_of, self._where)
        self._started = True  # whether the handler was given the partitions of the last round
        self._rejoin = True
        self._compare = False
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._working: asyncio.Task[Any] | None = None
        self._last_error: str | None = None

    @property
    def status(self) -> MembershipStatus:
        """The current state."""
        generation, partitions = self._assigned or (None, None)
        return MembershipStatus(
            generation=None if generation is None else generation.generation,
            partitions=partitions,
            is_leader=generation is not None and self._leader.leads,
            last_error=self._last_error,
        )

    def certain_for(self) -> float:
        """Return for how many seconds the assigned partitions are certainly this member's; 0 without an assignment.

        Is exact after a suspension of the process, too, when `lost` was not called yet.
        """
        return self._session.certain_for()

    def resubscribe(self) -> None:
        """Compare topics and, as leader, the partition counts of all members' topics; rejoin if they have changed.

        Call it whenever metadata was refreshed, as Java's consumer does.
        """
        self._compare = True
        self._wake.set()

    async def commit(self, offsets: Mapping[TopicPartition, int], *, timeout_ms: int = API_TIMEOUT_MS) -> Outcome:
        """Commit the next offsets to consume. Return None or the error for each partition.

        `CommitFailed`: the generation is over. Is retried for ``timeout_ms`` while the coordinator moves.
        """
        assigned = self._assigned
        if assigned is None:
            return generation_ended(self._group.group_id, offsets)
        return await commit_as_member(
            self._cluster,
            assigned[0],
            offsets,
            is_current=lambda: self._assigned is assigned,
            purpose=self._requests.purpose("commits"),
            timeout_ms=timeout_ms,
        )

    def stop(self) -> None:
        """Let `run` end: revoke the partitions and leave the group."""
        self._stopping.set()
        self._wake.set()

    async def run(self) -> None:
        """Take part in the group until `stop`, or until cancelled, which ends the membership with `lost`.

        Raises MembershipRefused if the coordinator rejects this member, and exceptions of the handler. It can be called
        again after that.
        """
        self._rejoin = True
        backoff = Backoff.for_retries(self._cluster.settings)
        try:
            while not self._stopping.is_set():
                if self._rejoin:
                    await self._revoke()
                try:
                    await unless(self._stopping, self._step(), name=self._where)
                except ClusterError as error:
                    await self._pause(await self._recover(error, backoff.next()))
                    continue
                self._last_error = None
                backoff.reset()
                await self._start_assigned()
                if not self._rejoin:
                    await self._pause(self._group.heartbeat_interval_ms / 1000)
            await self._revoke()
        finally:
            self._lose("the member was stopped")
            await self._requests.leave()

    # -- steps

    async def _step(self) -> None:
        await self._requests.find()
        if self._rejoin:
            await self._round()
            return
        await self._requests.heartbeat()
        if self._compare and await self._has_changed():
            self._rejoin = True

    async def _pause(self, seconds: float) -> None:
        """Wait until ``seconds`` are over, or there is something to do."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()

    async def _round(self) -> None:
        """Join and synchronize; as leader, with the assignments of all members."""
        metadata = encode_subscription(self._topics())
        joined = await self._requests.join([(assignor, metadata) for assignor in self._group.assignors])
        self._leader.step_down()
        assignments: dict[str, bytes] = {}
        if joined.leader_id == joined.member_id:
            assignments = await self._requests.wait_beside_heartbeats(self._leader.assign(joined))
        raw = await self._requests.synchronize(assignments)
        try:
            partitions = frozenset(decode_assignment(raw))
        except FormatError as error:
            raise MembershipRefused(f"{self._where}: invalid assignment from the leader: {error}", None) from None
        self._joined_with, self._rejoin, self._started = metadata, False, False
        self._assigned = self._requests.generation, partitions
        self._session.hold()
        log.info("%s: assigned %d partitions in generation %d", self._where, len(partitions), joined.generation)

    async def _has_changed(self) -> bool:
        """Return whether another assignment is needed, by the rules of Java's ConsumerCoordinator."""
        self._compare = False
        if encode_subscription(self._topics()) != self._joined_with:
            return True
        try:
            return bool(await self._beside_heartbeats(self._leader.is_outdated()))
        except ClusterError:
            self._compare = True
            raise

    # -- partitions

    async def _start_assigned(self) -> None:
        if self._assigned is None or self._started:
            return
        self._started = True
        generation, partitions = self._assigned
        await self._beside_heartbeats(self._handler.assigned(set(partitions), generation.generation))

    async def _revoke(self) -> None:
        if self._assigned is None:
            return
        limit_ms = self._group.max_poll_interval_ms
        late = f"revoking partitions took longer than max.poll.interval.ms ({limit_ms} ms)"
        limit = asyncio.get_running_loop().call_later(limit_ms / 1000, self._lose, late)
        try:
            await self._beside_heartbeats(self._handler.revoked())
        finally:
            limit.cancel()
        if self._assigned is not None:
            log.info("%s: revoked %d partitions", self._where, len(self._assigned[1]))
        self._assigned = None
        self._session.release()

    def _lose(self, reason: str) -> None:
        """End the membership at once."""
        if self._assigned is None:
            return
        log.warning("%s: lost %d partitions: %s", self._where, len(self._assigned[1]), reason)
        self._assigned = None
        self._session.release()
        self._rejoin = True
        self._last_error = reason
        if self._working is not None:
            self._working.cancel()
        self._wake.set()
        self._handler.lost()

    async def _beside_heartbeats(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return the result of ``work``; None if the membership ended meanwhile, which cancels it."""
        task = self._working = asyncio.create_task(work, name=self._where)
        beating = asyncio.create_task(self._keep_alive(), name=f"{self._where}: heartbeats")
        try:
            await asyncio.wait((task, beating), return_when=asyncio.FIRST_COMPLETED)
            if beating.done():
                beating.result()
        finally:
            self._working = None
            await end(task, beating)
        if self._assigned is not None:
            result: T = task.result()
            return result
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, ClusterError):
            raise error
        return None

    async def _keep_alive(self) -> None:
        """Send heartbeats until the membership ends."""
        interval = self._group.heartbeat_interval_ms / 1000
        backoff = Backoff.for_retries(self._cluster.settings)
        pause = max(0.0, self._session.contact + interval - session_clock())
        while self._assigned is not None:
            await asyncio.sleep(pause)
            try:
                await self._requests.heartbeat()
            except ClusterError as error:
                retry_after = await self._recover(error, backoff.next())
                pause = interval if self._rejoin else retry_after
            else:
                pause = interval
                backoff.reset()

    async def _recover(self, error: ClusterError, pause: float) -> float:
        """Update the state after an error; return the seconds to wait before the next attempt.

        Raises MembershipRefused if there should be none.
        """
        code = error.code if isinstance(error, BrokerError) else None
        if code in _JOIN_AGAIN:
            self._rejoin = True
            return 0.0
        if str(error) != self._last_error:
            log.info("%s: %s", self._where, error)
        self._last_error = str(error)
        if code in COORDINATOR_MOVED or isinstance(error, Unreachable | RequestTimedOut):
            self._requests.find_again()
            return pause
        if code in NOT_A_MEMBER:
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._requests.forget_member_id()
            self._rejoin = True
            self._lose(f"the broker removed this member from the group ({error})")
            return pause
        if error.retriable:
            return pause
        if isinstance(error, MembershipRefused):
            raise error
        raise await refused(self._cluster, self._group, error) from error
