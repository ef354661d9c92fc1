"""One stream: a member of the consumer group, whose partitions a lane copies."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from mm2.core.lanes.lease import SourceTaskLease
from mm2.core.mirror1.settings import ConsumerSettings, MirrorSettings
from mm2.core.naming.names import Flow, TopicPartition
from mm2.kafka.backoff import Backoff
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.offsets import list_offsets
from mm2.kafka.errors import BrokerError, ClusterError
from mm2.kafka.groups.consumer_member import ConsumerMember
from mm2.kafka.groups.groups import ReadCommitted, committed_offsets
from mm2.kafka.groups.member_errors import MembershipRefused
from mm2.mirror1.stream_leases import COPIED, ROUTED, stream_lease
from mm2.mirror1.stream_offsets import ListOffsets, StreamOffsets
from mm2.mirror1.stream_reports import StreamReports
from mm2.mirror1.topics import NOTHING, Prepared, SourceTopics, TargetTopics
from mm2.node.common.cancelling import cancel_and_wait
from mm2.node.common.daemon_thread import in_daemon_thread
from mm2.node.common.restarting import RESTART_AFTER_S, restart_on_error
from mm2.node.engine.lease_service import LeaseService, Wake

log = logging.getLogger("mm2.mirror1")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTimes:
    """Limits and intervals of a stream, in seconds."""

    look_every_s: float = 1.0
    """Lanes report once a second; their reports also wake the stream."""
    shortest_commit_s: float = 0.1
    """Commits are not more frequent than this: positions change when lanes report, about once a second."""
    last_commit_s: float = 5.0
    """Time for the commit of a stream that is stopped: a source that answers takes less than a second."""
    drain_within_s: float = 10.0
    """Time for what is in flight when the stream is stopped, as with mm2 run by default: the default of
    task.shutdown.graceful.timeout.ms. MirrorMaker 1 has no such property; service managers kill a process after
    longer."""
    lanes_stop_within_s: float = 3.0
    """Time for lanes to close their connections if that was not enough: they take up to two seconds for it."""
    refused_topic_s: float = 10.0
    """Pause before topics that a cluster has refused are tried again: an administrator has to permit them."""
    refused_s: float = 3.0
    """Pause after the coordinator has rejected the member: an administrator has to change something."""
    restart_after_s: float = RESTART_AFTER_S
    """Pause after an unexpected error of work in the background."""


TIMES = StreamTimes()


class Stream:
    """Copies what the group assigns to it, between `start` and `stop`.

    (A) An offset is committed only when the target has everything before it.
    (B) Before the group takes partitions away, their records in flight are completed and their offsets committed.
    (C) Without a certain membership nothing is written: the leases of the lanes end before it (`certain_for`).
    (D) `run` ends soon after `stop`, also if a cluster does not answer: what is in flight is then copied again.
    """

    def __init__(
        self,
        settings: MirrorSettings,
        consumer: ConsumerSettings,
        *,
        flow: Flow,
        client_id: str,
        leases: LeaseService,
        topics: SourceTopics,
        targets: TargetTopics,
        old_offsets: dict[TopicPartition, int] | None = None,
        listener: Any = None,
        times: StreamTimes = TIMES,
        member: Callable[..., ConsumerMember] = ConsumerMember,
        read_committed: ReadCommitted = committed_offsets,
        list_offsets: ListOffsets = list_offsets,
    ) -> None:
        """``flow`` names the stream for the lanes. ``old_offsets``: as for `StreamOffsets`. ``listener``: the user's
        rebalance listener. ``member`` creates the stream's member of the group, given what `ConsumerMember` is given.
        """
        self._settings = settings
        self._times = times
        self._consumer = consumer
        self.flow = flow
        self._leases = leases
        self._topics = topics
        self._targets = targets
        self._listener = listener
        self._cluster = Cluster(consumer.client, client_id=client_id)
        self.member = member(
            self._cluster,
            consumer.group,
            client_id=client_id,
            topics=topics.names,
            partitions_of=self._topics.counts,
            handler=self,
        )
        self._announced: frozenset[TopicPartition] = frozenset()  # to the listener
        self._assigned: frozenset[TopicPartition] = frozenset()
        self._kept: frozenset[str] = frozenset()
        self._stopping = False
        self._drain_until = float("inf")  # in the time of the event loop
        self._refused: str | None = None
        self._starting: asyncio.Task[None] | None = None
        self._not_started: str | None = None  # why assigned partitions are not started yet
        self.reports = StreamReports(flow, leases.board)
        self._offsets = StreamOffsets(
            flow,
            self._cluster,
            consumer.group.group_id,
            self.member,
            self.reports,
            fetch=consumer.fetch,
            read_committed=read_committed,
            old_offsets={} if old_offsets is None else old_offsets,
            list_offsets=list_offsets,
        )
        self.all_committed = True
        self.drained = True  # what was in flight at the end is acknowledged

    async def run(self) -> None:
        """Take part in the group until `stop`; then complete what is in flight, commit it, and leave the group."""
        async with self._cluster:
            self._leases.register(self.flow, self)
            background = [
                asyncio.create_task(self._restarted(work, name), name=f"{name} of {self.flow}")
                for work, name in ((self._commit_regularly, "commits"), (self._follow_reports, "reports"))
            ]
            try:
                while not self._stopping:
                    try:
                        await self.member.run()
                    except MembershipRefused as error:
                        self._refused = str(error)
                        await asyncio.sleep(self._times.refused_s)
                    else:
                        self._refused = None
            finally:
                await self._end_start()
                await cancel_and_wait(background)

    async def _restarted(self, work: Callable[[], Awaitable[None]], name: str) -> None:
        await restart_on_error(work, f"{self.flow}: {name}", after_s=self._times.restart_after_s)

    def stop(self) -> None:
        """Have `run` end: what is in flight has `StreamTimes.drain_within_s`."""
        self._stopping = True
        drain_until = asyncio.get_running_loop().time() + self._times.drain_within_s
        self._drain_until = min(self._drain_until, drain_until)
        self.member.stop()

    # -- what the group says (`mm2.kafka.groups.consumer_member`)

    async def assigned(self, partitions: set[TopicPartition], generation: int) -> None:
        """Copy these partitions from now on."""
        log.info("%s: %d partitions assigned (generation %d)", self.flow, len(partitions), generation)
        self._refused = None
        self._offsets.begin()
        if self._listener is not None and partitions:
            self._announced = frozenset(partitions)
            await self._call_listener(self._listener.on_partitions_assigned, self._announced)
        self._starting = asyncio.create_task(
            self._restarted(partial(self._start, partitions), "start"), name=f"start of {self.flow}"
        )

    async def _start(self, partitions: Collection[TopicPartition]) -> None:
        """Start partitions as soon as their topics are ready on both sides; those of refused topics are tried again."""
        try:
            await self._start_waiting(set(partitions) - self._assigned)
        except Exception as error:
            self._report(f"cannot start the assigned partitions: unexpected error {error!r}")
            raise

    async def _start_waiting(self, waiting: set[TopicPartition]) -> None:
        backoff = Backoff.for_retries(self._consumer.client)
        while waiting:
            try:
                decided = await self._offsets.decide(waiting)  # first, whenever the target is ready
                found = await self._topics.look_up({one.topic for one in waiting})
                counts = {name: count for name, count in found.items() if isinstance(count, int)}
                prepared = await self._prepared(counts)
            except ClusterError as error:
                self._report(f"cannot start the assigned partitions: {error}")
                await asyncio.sleep(backoff.next())
                continue
            starts = {one: start for one, start in decided.items() if not isinstance(start, ClusterError)}
            ready = {one for one in starts if one.topic in counts and one.topic not in prepared.refused}
            self._offsets.start({one: starts[one] for one in ready})
            self._kept = (self._kept - counts.keys()) | prepared.kept
            self._assigned |= ready
            waiting -= ready
            self._put()
            hidden = [error for error in found.values() if isinstance(error, BrokerError)]
            endless = [
                error for one, error in decided.items() if isinstance(error, ClusterError) and one.topic in counts
            ]
            reasons = {str(error) for error in (*hidden, *endless, *prepared.refused.values())}
            self._report("; ".join(sorted(reasons)) or None)
            if waiting:
                soon = any(error.retriable for error in endless)
                await asyncio.sleep(backoff.next() if soon else self._times.refused_topic_s)

    async def _prepared(self, counts: Mapping[str, int]) -> Prepared:
        """A message handler names the topics on the target, which the lane then creates."""
        if self._settings.handler is not None:
            return NOTHING
        return await self._targets.prepare(counts)

    async def _end_start(self) -> None:
        if self._starting is not None:
            await cancel_and_wait([self._starting])
            self._starting = None

    async def revoked(self) -> None:
        """Complete what is in flight, and commit it. Partitions are copied again when they are assigned."""
        await self._end_start()
        before, self._assigned = self._assigned, frozenset()
        if before:
            self.all_committed = False  # until then, also if the membership ends meanwhile
            self._put()
            self.drained = await self._drain()
            if not self.drained:
                await self._stop_lanes(before)
            self.all_committed = await self._commit_last(before) and self.drained
        self._offsets.end()
        announced, self._announced = self._announced, frozenset()
        if self._listener is not None and announced:
            await self._call_listener(self._listener.on_partitions_revoked, announced)

    async def _call_listener(self, method: Callable[..., None], partitions: frozenset[TopicPartition]) -> None:
        """Call the user's class, in a thread of its own: it may block, and asyncio's own threads are few."""
        await in_daemon_thread(partial(method, partitions), f"rebalance listener of {self.flow}")

    async def _drain(self) -> bool:
        """Wait until everything in flight is acknowledged; return False if that takes too long for a stop."""
        loop = asyncio.get_running_loop()
        while any(self.reports.is_running(number) for number in (COPIED, ROUTED)):
            left = self._drain_until - loop.time()
            if left <= 0:
                return False
            await self._leases.wait_for_change(min(self._times.look_every_s, left), {Wake.REPORT})
            self.reports.positions()
        return True

    async def _stop_lanes(self, partitions: Collection[TopicPartition]) -> None:
        """Have the lanes write nothing more, so that the next owner of the partitions can."""
        unfinished = self.reports.unfinished() or partitions
        log.warning(
            "%s: the target has not acknowledged everything in flight within %.0f s; what is not committed of %s will"
            " be copied again",
            *(self.flow, self._times.drain_within_s, ", ".join(map(str, sorted(unfinished)))),
        )
        keys = [(self.flow, number) for number in (COPIED, ROUTED)]
        for key in keys:
            self._leases.remove(key)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._times.lanes_stop_within_s):
                while any(map(self._leases.board.runs, keys)):
                    await self._leases.wait_for_change(self._times.look_every_s, {Wake.REPORT})

    async def _commit_last(self, partitions: Collection[TopicPartition]) -> bool:
        """Commit before the partitions are given up; return whether all positions are committed."""
        if not self._stopping:
            return await self._offsets.commit(partitions)
        try:
            async with asyncio.timeout(self._times.last_commit_s):
                return await self._offsets.commit(partitions)
        except TimeoutError:
            log.warning(
                "%s: cannot commit offsets: the source has not answered within %.0f s",
                self.flow,
                self._times.last_commit_s,
            )
            return False

    def lost(self) -> None:
        """The membership has ended: write nothing more, and commit nothing."""
        if self._starting is not None:
            self._starting.cancel()
        if self._assigned:
            self.all_committed = False
        self._announced = self._assigned = frozenset()
        self._offsets.end()
        self.reports.forget()
        for number in (COPIED, ROUTED):
            self._leases.remove((self.flow, number))

    def _report(self, last_error: str | None) -> None:
        if last_error is not None and last_error != self._not_started:
            log.warning("%s: %s", self.flow, last_error)
        self._not_started = last_error

    # -- leases

    def _put(self) -> None:
        for number in (COPIED, ROUTED):
            key = (self.flow, number)
            if self._of(number) or self.reports.is_running(number) or self._leases.board.lane_has(key):
                self._leases.put(self._build(number))

    def _of(self, number: int) -> list[TopicPartition]:
        is_routed = self._settings.handler is not None
        return sorted(one for one in self._assigned if (number == ROUTED) is (is_routed or one.topic not in self._kept))

    async def prepare_lease(self, source_task: int) -> None:
        """A lane starts, or starts again: after what the target has, as far as that is reported or committed."""
        while not await self._offsets.refresh_starts(self._assigned):
            continue

    def hand_out_lease(self, source_task: int) -> SourceTaskLease | None:
        """Return the lease of a lane that starts, if it has partitions to copy."""
        return self._build(source_task) if self._of(source_task) else None

    def certain_for(self) -> float:
        """Return for how many seconds the stream is certainly a member of the group."""
        return self.member.certain_for()

    def fetch_share(self, source_task: int) -> int | None:
        """Return None: MirrorMaker 1 has no limit."""
        return None

    def _build(self, number: int) -> SourceTaskLease:
        starts, epoch = self._offsets.starts_of(self._of(number)), self._offsets.epoch
        return stream_lease(self._settings, self._consumer, self.flow, starts, source_task=number, epoch=epoch)

    # -- progress

    async def _follow_reports(self) -> None:
        """A start that was chosen because no offset is committed is committed at once: it would be chosen again."""
        while True:
            reported = self._leases.change_event({Wake.REPORT})
            self.reports.log_losses()
            if chosen := self._offsets.chosen():
                await self._offsets.commit(chosen)
            await reported.wait(self._times.look_every_s)

    def last_error(self) -> str | None:
        """Return why the stream does not copy all of its partitions."""
        return self._refused or self._not_started or self.member.status.last_error or self.reports.error()

    async def _commit_regularly(self) -> None:
        interval = max(self._settings.commit_interval_ms / 1000, self._times.shortest_commit_s)
        while True:
            await asyncio.sleep(interval)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval + self._times.last_commit_s):
                    await self._offsets.commit(self._assigned)
