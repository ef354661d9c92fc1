"""One source task in a lane: applies its lease to a pipeline, and reports its progress."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Protocol
from uuid import UUID

from flows.batch.choice import rules_from
from flows.batch.codecs import compress
from flows.batch.header import HEADER_BYTES, encode_header, read_header
from flows.commit.committer import Committer
from flows.commit.exact_offset_writer import ExactOffsetWriter
from flows.commit.loss_writer import LossWriter
from flows.commit.offset_committer import OffsetCommitter, ReportedOffsets
from flows.commit.offset_sync_writer import OffsetSyncWriter
from flows.commit.transaction_committer import TransactionalJournals, TransactionCommitter
from flows.lane.byte_budget import ByteBudget
from flows.lane.lease_deadline import LeaseDeadline
from flows.lane.loop_turns import LoopTurns
from flows.partition.frame_transform import FrameTransform, LaneTransforms
from flows.partition.health import FlowHistograms, PartitionMetrics
from flows.partition.replicator import PartitionReplicator
from flows.partition.timeouts import TIMEOUTS, Timeouts
from flows.routing.new_topics import NewTopics
from flows.routing.partition_router import load_handler
from flows.routing.record_sender import RoutedRetryLimit
from flows.routing.router import RecordRouter
from flows.source.fetch_limit import FetchLimit
from flows.source.record_limits import RecordLimits, record_limit
from flows.source_task.pipeline import Pipeline
from flows.source_task.spawn import Spawn
from flows.target.dead_letter_writer import DEAD_LETTER_BUFFER_BYTES, DeadLetterWriter
from mm2.core.lanes.counters import SourceTaskCounters
from mm2.core.lanes.lease import PartitionLease, RecordRouting, SourceTaskLease
from mm2.core.lanes.losses import Loss
from mm2.core.lanes.partition_steps import PartitionEvent
from mm2.core.lanes.progress_reports import PartitionProgress, SourceTaskProgress
from mm2.core.lanes.task_states import TaskState
from mm2.core.log_records import work_for
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.leader_epochs import UNKNOWN_EPOCH, last_epoch
from mm2.core.settings.client import ClientSettings
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterError, first_error
from mm2.kafka.logs.control_producer import BUFFER_BYTES, ControlProducer

log = logging.getLogger(__name__)

RENEWAL_CHECK_S = 0.1
"""How often an expired lease is checked for a renewal."""

ROUTED_BUFFER_BYTES = 64 * 1024 * 1024
"""Routed records that are decoded and not acknowledged. The fetched batches are limited by the lane's budget."""


async def open_router(
    lease: SourceTaskLease,
    routing: RecordRouting,
    source: Cluster,
    target: Cluster,
    stack: AsyncExitStack,
    *,
    timeouts: Timeouts,
) -> Callable[[Spawn], FrameTransform]:
    """Return how to create the router. Only topics that a message handler names are created: it makes up the names.

    Raises UserClassError.
    """
    handle = load_handler(routing.handler)
    rules = rules_from(lease.produce, lease.fetch)
    finish = partial(compressed, rules.codec, rules.level) if rules.codec else None
    producer = await stack.enter_async_context(
        ControlProducer(
            target,
            purpose="routed records",
            idempotent=lease.produce.idempotent,
            buffer_bytes=ROUTED_BUFFER_BYTES,
            finish=finish,
            retry_limit=partial(RoutedRetryLimit, timeouts),
        )
    )
    new_topics = NewTopics(source, target) if routing.handler is not None else None
    limits = RecordLimits(source, record_limit(lease.fetch))
    return partial(RecordRouter, target, producer, handle, new_topics, limits=limits, timeouts=timeouts)


def compressed(codec: int, level: int | None, batch: bytes) -> bytes:
    """Return an uncompressed batch in format v2 with its records compressed."""
    header = read_header(memoryview(batch), 0)
    records = bytes(compress(codec, level, batch[HEADER_BYTES:]))
    return (
        encode_header(
            records,
            attributes=header.attributes | codec,
            base_timestamp=header.base_timestamp,
            max_timestamp=header.max_timestamp,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            count=header.record_count,
        )
        + records
    )


class NewProducer(Protocol):
    """Opens a producer that the source task closes when it ends."""

    async def __call__(self, settings: ClientSettings, purpose: str, /) -> ControlProducer: ...


async def open_committer(lease: SourceTaskLease, producer: NewProducer, timeouts: Timeouts) -> Committer:
    """Return the committer for the lease: with transactions, source offsets and exact offsets are written in them."""
    if lease.offsets is None:
        return ReportedOffsets()
    offsets, syncs, exact, losses = lease.offsets, lease.offset_syncs, lease.exact_offsets, lease.losses
    source = lease.offsets.source_alias
    loss_writer = LossWriter(
        await producer(losses.client, "losses") if losses is not None else None,
        losses,
        patience_s=timeouts.loss_patience_s,
    )
    sync_writer = OffsetSyncWriter(await producer(syncs.client, "syncs"), syncs) if syncs is not None else None
    if lease.transactions is not None:
        return TransactionCommitter(
            offsets,
            source=source,
            losses=loss_writer,
            syncs=sync_writer,
            exact=TransactionalJournals(exact) if exact is not None else None,
        )
    return OffsetCommitter(
        await producer(offsets.client, "offsets"),
        offsets,
        source=source,
        losses=loss_writer,
        syncs=sync_writer,
        exact=ExactOffsetWriter(await producer(exact.client, "exact offsets"), exact) if exact is not None else None,
    )


class SourceTask:
    """Runs one source task from `start` until `close`.

    (A) A revoked partition is STOPPED only when none of its batches is in flight and its offset is stored.
    (B) A failure ends the replication of the source task, never the lane: its state is FAILED, with the error.
    (C) Code that adds partitions, or moves them from one of the sets to another, sets ``_partitions_changed``.
    (D) Nothing is sent after the deadline, and requests that are not sent completely by then are cut off.
    """

    def __init__(
        self,
        lease: SourceTaskLease,
        budget: ByteBudget,
        deadline: LeaseDeadline,
        lane_query: LaneTransforms | None = None,
        *,
        turns: LoopTurns | None = None,
        limit: FetchLimit | None = None,
        timeouts: Timeouts = TIMEOUTS,
    ) -> None:
        """``deadline``: until when the source task may send anything; it is renewed by the caller. ``lane_query``: of
        the lane, if the lease has a query. ``turns``: shared by the lane's source tasks. ``limit``: of what is fetched;
        the caller changes its rate. ``timeouts``: of partitions whose batches the target does not accept."""
        self._lane_query = lane_query
        self._timeouts = timeouts
        self._lease = lease
        self._budget = budget
        self._turns = turns or LoopTurns()
        self._limit = limit or FetchLimit()
        self._deadline = deadline
        self._timeouts = timeouts
        self._clusters: dict[ClientSettings, Cluster] = {}
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._assigned: dict[TopicPartition, PartitionLease] = {}
        self._running: dict[TopicPartition, PartitionReplicator] = {}
        self._leaving: dict[TopicPartition, PartitionReplicator] = {}
        self._stopped: dict[TopicPartition, PartitionProgress] = {}
        self._metrics: dict[TopicPartition, PartitionMetrics] = {}
        self._histograms = FlowHistograms()
        self._to_resume: dict[TopicPartition, PartitionLease] = {}  # for partitions that left: where to resume
        self._uncopied: dict[TopicPartition, tuple[int, int] | None] = {}  # and their source offsets after that
        self._recreated: dict[TopicPartition, UUID] = {}  # while they leave: the ID of the new topic
        self._partitions_changed = True
        self._last_events: list[PartitionEvent] = []  # of partitions that have left
        self._reported: dict[PartitionReplicator, tuple[object, ...] | None] = {}
        self._pipeline: Pipeline | None = None
        self._draining = False
        self._drained = False
        self._failure: str | None = None

    def start(self) -> None:
        """Start replication. Returns immediately; errors are reported by `progress`."""
        self.apply(self._lease)
        self._task = asyncio.create_task(self._run(), name=f"source task {self._lease.flow} {self._lease.source_task}")

    def apply(self, lease: SourceTaskLease) -> None:
        """Copy the lease's partitions from now on.

        Other settings keep their values from the start: a source task with new settings is a new source task.
        """
        self._partitions_changed = True
        self._assigned = {TopicPartition(one.topic, one.partition): one for one in lease.partitions}
        self._lease = dataclasses.replace(self._lease, partitions=lease.partitions, epoch=lease.epoch)
        if self._pipeline is not None and any(map(self._is_recreated, self._running)):
            self._pipeline.refresh_soon()
        self._changed.set()

    def drain(self) -> None:
        """Stop fetching, wait for the batches in flight, store offsets and syncs, then report ``drained``.

        Waits as long as the target needs; use `close` to stop immediately.
        """
        self._draining = True
        self._changed.set()

    async def close(self) -> None:
        """Stop immediately. The next owner copies everything after the stored offsets again."""
        if not self._drained:
            self._abort_connections()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    def progress(self) -> SourceTaskProgress:
        """Return the progress of all partitions."""
        now, wall = time.monotonic(), time.time()
        copied = (partition.progress(now, wall) for partition in self._partitions())
        return self._progress((*copied, *self._not_running()), whole=True)

    def news(self) -> SourceTaskProgress:
        """Return the progress of partitions that changed since the last ``news``, which the node must have received."""
        partitions = self._partitions()
        now, wall = time.monotonic(), time.time()
        keys = {partition: partition.progress_key(now) for partition in partitions}
        events, self._last_events = self._last_events, []
        for partition in partitions:
            events += partition.take_events(now, wall)
        reported, self._reported = self._reported, keys
        if self._partitions_changed:
            self._partitions_changed = False
            return dataclasses.replace(self.progress(), events=tuple(events))
        changed = [
            partition for partition in partitions if (key := keys[partition]) is None or key != reported[partition]
        ]
        news = self._progress(tuple(partition.progress(now, wall) for partition in changed), whole=False)
        return dataclasses.replace(news, events=tuple(events)) if events else news

    def _partitions(self) -> list[PartitionReplicator]:
        return [*self._running.values(), *self._leaving.values()]

    def _progress(self, partitions: tuple[PartitionProgress, ...], *, whole: bool) -> SourceTaskProgress:
        pipeline = self._pipeline
        return SourceTaskProgress(
            flow=self._lease.flow,
            source_task=self._lease.source_task,
            epoch=self._lease.epoch,
            state=self._state(),
            drained=self._drained,
            error=self._failure or (pipeline.error if pipeline is not None else None),
            partitions=partitions,
            whole=whole,
            batches=pipeline.batch_counts if pipeline is not None else (),
            losses=pipeline.losses if pipeline is not None else (),
            warnings=pipeline.warnings if pipeline is not None else (),
            counters=self._counters(),
            last_minute=pipeline.watch.recent(time.monotonic()) if pipeline is not None else None,
            fetched=self._limit.totals,
        )

    def _counters(self) -> SourceTaskCounters:
        pipeline, histograms = self._pipeline, self._histograms
        source_s, target_s = pipeline.throttled_s if pipeline is not None else (0.0, 0.0)
        return SourceTaskCounters(
            waits=pipeline.watch.total if pipeline is not None else (),
            source_throttled=source_s,
            target_throttled=target_s,
            ages=histograms.ages.totals,
            latencies=histograms.latencies.totals,
        )

    def _not_running(self) -> list[PartitionProgress]:
        """Return partitions that are not being copied: stopped ones, and those that wait for the pipeline."""
        waiting = self._assigned.keys() - self._running.keys() - self._leaving.keys() - self._stopped.keys()
        leases = map(self._assigned.__getitem__, waiting)
        return [
            *(
                PartitionProgress(
                    topic=lease.topic,
                    partition=lease.partition,
                    remote_topic=lease.remote_topic,
                    state=TaskState.WAITING,
                    stored=lease.start_offset,
                )
                for lease in leases
            ),
            *self._stopped.values(),
        ]

    def _state(self) -> TaskState:
        if self._failure is not None:
            return TaskState.FAILED
        if self._drained:
            return TaskState.STOPPED
        if self._draining:
            return TaskState.DRAINING
        return TaskState.WAITING if self._pipeline is None else TaskState.RUNNING

    # -- inside

    def _is_recreated(self, partition: TopicPartition) -> bool:
        """Return whether the lease has another topic id than the partition being copied."""
        lease = self._assigned.get(partition)
        return lease is not None and not lease.topic_ids.may_be(self._running[partition].topic_ids)

    def _is_accepted(self, partition: TopicPartition) -> bool:
        """Return whether an operator has accepted the loss that stopped the partition: it starts again."""
        lease, loss = self._assigned.get(partition), self._running[partition].stopped_by
        return lease is not None and loss is not None and _accepts(lease, loss)

    async def _run(self) -> None:
        work_for(self._lease.flow)
        try:
            await self._replicate()
        except Exception as error:  # any error ends only this source task, and is reported
            first = first_error(error) if isinstance(error, BaseExceptionGroup) else error
            self._failure = str(first) if isinstance(first, ClusterError) else f"unexpected error: {error!r}"
            log.exception("%s: source task %d failed", self._lease.flow, self._lease.source_task)

    async def _replicate(self) -> None:
        lease = self._lease
        async with AsyncExitStack() as stack:
            clusters = self._clusters = {}

            async def cluster(settings: ClientSettings) -> Cluster:
                if settings not in clusters:
                    connected = Cluster(settings, may_send=lambda: self._deadline.valid)
                    clusters[settings] = await stack.enter_async_context(connected)
                return clusters[settings]

            async def producer(
                settings: ClientSettings, purpose: str, buffer_bytes: int = BUFFER_BYTES
            ) -> ControlProducer:
                created = ControlProducer(await cluster(settings), purpose=purpose, buffer_bytes=buffer_bytes)
                return await stack.enter_async_context(created)

            source, target = await cluster(lease.source), await cluster(lease.target)
            committer = await open_committer(lease, producer, self._timeouts)
            dead_letters = lease.dead_letters
            letters = (
                DeadLetterWriter(
                    await producer(lease.target, "dead letters", DEAD_LETTER_BUFFER_BYTES),
                    dead_letters,
                    flow=lease.flow,
                    source_task=lease.source_task,
                    source_values=lease.query is None or not lease.query.hides_values,
                    timeouts=self._timeouts,
                )
                if dead_letters is not None
                else None
            )
            router = None
            if lease.routing is not None:
                router = await open_router(lease, lease.routing, source, target, stack, timeouts=self._timeouts)
            async with asyncio.TaskGroup() as group:
                pipeline = Pipeline(
                    lease,
                    self._budget,
                    group,
                    limit=self._limit,
                    source=source,
                    target=target,
                    committer=committer,
                    dead_letters=letters,
                    lane_query=self._lane_query,
                    router=router,
                    turns=self._turns,
                    on_source_recreated=self._source_recreated,
                    timeouts=self._timeouts,
                )
                self._pipeline = pipeline
                try:
                    pipeline.start()
                    pipeline.spawn(self._follow_deadline())
                    await self._follow_lease(pipeline)
                finally:
                    pipeline.close()

    async def _follow_deadline(self) -> None:
        """Cut off requests that are being sent when the deadline passes; they are retried after a renewal."""
        while True:
            await asyncio.sleep(max(self._deadline.remaining, 0) or RENEWAL_CHECK_S)
            if not self._deadline.valid:
                self._abort_connections()

    def _abort_connections(self) -> None:
        for cluster in self._clusters.values():
            cluster.abort_connections()

    async def _follow_lease(self, pipeline: Pipeline) -> None:
        """Add and remove partitions whenever the lease changes."""
        while True:
            self._changed.clear()
            if self._draining and not self._drained:
                leaving = self._leave(set(self._running))
                await pipeline.drain(leaving | set(self._leaving.values()))
                await self._removed(pipeline, set(self._leaving.values()))
                self._drained = True
            elif not self._draining:
                accepted = set(filter(self._is_accepted, self._running))
                revoked = self._leave((self._running.keys() - self._assigned.keys()) | accepted)
                if revoked:
                    pipeline.spawn(self._remove(pipeline, revoked))
                for partition in self._assigned.keys() - self._running.keys() - self._leaving.keys():
                    metrics = self._metrics.setdefault(
                        partition, PartitionMetrics(self._histograms)
                    )  # continued since the lane's start
                    self._running[partition] = pipeline.add(self._newest_lease(partition, pipeline), metrics)
                    self._stopped.pop(partition, None)
                    self._partitions_changed = True
                for partition, replicator in self._running.items():
                    replicator.request_skip(self._assigned[partition].skip_offset, time.monotonic())
            await self._changed.wait()

    def _newest_lease(self, partition: TopicPartition, pipeline: Pipeline) -> PartitionLease:
        """Return the partition's lease, or where this source task itself would resume it, whichever is newer.

        The lease may have been built before the partition stopped here, or before its topic was recreated.
        """
        lease = self._assigned[partition]
        known = self._to_resume.pop(partition, None)
        if known is None:
            return lease
        known = dataclasses.replace(known, accepted_loss=lease.accepted_loss, recorded_loss=lease.recorded_loss)
        if known.stopped_by is not None and _accepts(lease, known.stopped_by):
            known = dataclasses.replace(known, stopped_by=None)
        leased_id, known_id = lease.topic_ids.source, known.topic_ids.source
        if known.topic_recreated and leased_id == known_id:
            return known  # it also knows how much of the former topic was copied
        if pipeline.is_replaced(leased_id) or (leased_id is None and known.topic_recreated):
            return known
        if leased_id is not None and known_id is not None and leased_id != known_id:
            return (
                dataclasses.replace(lease, uncopied_of_deleted_topic=self._uncopied.get(partition))
                if lease.topic_recreated
                else lease
            )
        known = dataclasses.replace(known, copied_until=lease.copied_until)
        epoch, leased_epoch = last_epoch(known.leader_epochs), last_epoch(lease.leader_epochs)
        is_newer = _position(known) > _position(lease)
        if UNKNOWN_EPOCH not in (epoch, leased_epoch) and epoch != leased_epoch:
            is_newer = epoch > leased_epoch
        if is_newer and lease.repeat <= known.repeat:  # else an operator has chosen an earlier start
            return known
        lacks_epochs = _position(known) == _position(lease) and not lease.leader_epochs
        return dataclasses.replace(lease, leader_epochs=known.leader_epochs) if lacks_epochs else lease

    def _source_recreated(self, partition: PartitionReplicator, source_id: UUID) -> None:
        """Wait for the batches in flight of the old topic, then copy the new one from its beginning."""
        source = partition.source
        if self._pipeline is None or self._running.get(source) is not partition:
            return
        self._recreated[source] = source_id
        self._pipeline.spawn(self._remove(self._pipeline, self._leave({source})))

    def _lease_to_resume(self, partition: PartitionReplicator) -> PartitionLease:
        """Return a lease that resumes a partition that has drained; a recreated topic is resumed from its beginning."""
        lease = partition.lease_to_resume()
        source_id = self._recreated.pop(partition.source, None)
        if source_id is None:
            return lease
        return dataclasses.replace(
            lease,
            start_offset=0,
            topic_recreated=True,
            leader_epochs=(),
            topic_ids=partition.topic_ids._replace(source=source_id),
            uncopied_of_deleted_topic=_left_to_copy(partition, lease),
            stopped_by=None,
        )

    def _leave(self, partitions: set[TopicPartition]) -> set[PartitionReplicator]:
        self._partitions_changed = True
        leaving = {partition: self._running.pop(partition) for partition in partitions}
        self._leaving |= leaving
        return set(leaving.values())

    async def _remove(self, pipeline: Pipeline, partitions: set[PartitionReplicator]) -> None:
        await pipeline.drain(partitions)
        await self._removed(pipeline, partitions)
        self._changed.set()

    async def _removed(self, pipeline: Pipeline, partitions: set[PartitionReplicator]) -> None:
        """Report what was left to copy of partitions whose topic is gone, and keep where to resume the others."""
        reported = await pipeline.report_deleted_topics(
            [one for one in partitions if one.source not in self._recreated]
        )
        self._partitions_changed = True
        now, wall = time.monotonic(), time.time()
        for partition in partitions:
            self._leaving.pop(partition.source, None)
            self._stopped[partition.source] = partition.progress(now, wall, stopped=True)
            self._last_events += partition.take_events(now, wall)
            lease = self._to_resume[partition.source] = self._lease_to_resume(partition)
            self._uncopied[partition.source] = None if partition in reported else _after_stored(partition, lease)


def _left_to_copy(partition: PartitionReplicator, lease: PartitionLease) -> tuple[int, int] | None:
    """Return the source offsets (first, until) that are not copied, counted from the stored offset in ``lease``."""
    is_copied = 0 <= partition.end_offset <= partition.position
    return None if is_copied else _after_stored(partition, lease)


def _after_stored(partition: PartitionReplicator, lease: PartitionLease) -> tuple[int, int] | None:
    """Return the source offsets (first, until) from the stored one in ``lease`` to the last known end.

    A partition that has left the source task can have grown since.
    """
    stored = lease.start_offset if lease.start_offset is not None else partition.position
    return None if stored < 0 else (stored, max(stored, partition.end_offset))


def _position(lease: PartitionLease) -> int:
    """Return the start offset; -1 if it is still to be chosen."""
    return -1 if lease.start_offset is None else lease.start_offset


def _accepts(lease: PartitionLease, loss: Loss) -> bool:
    return lease.accepted_loss is not None and lease.accepted_loss.is_same(loss)
