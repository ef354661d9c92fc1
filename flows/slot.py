"""One slot in a lane: what the node orders, brought to a pipeline, and what the node is told."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from contextlib import AsyncExitStack
from uuid import UUID

from flows.bookkeeping import Bookkeeping
from flows.budget import ByteBudget
from flows.copy import PartitionCopy
from flows.exact_offsets import ExactOffsets
from flows.identity import Identities
from flows.offsets import SourceOffsets
from flows.pipeline import Pipeline
from flows.report import progress_of, telling
from flows.syncs import OffsetSyncs
from flows.tally import Tally
from mm2.core.client_settings import ClientSettings
from mm2.core.lease import BatchCount, Loss, PartitionLease, PartitionProgress, SlotLease, SlotProgress, TaskState
from mm2.core.made_anew import source_made_anew
from mm2.core.names import TopicPartition
from mm2.kafka.cluster import Cluster
from mm2.kafka.control_producer import ControlProducer
from mm2.kafka.errors import ClusterError

log = logging.getLogger("mm2.slot")

LOSSES_KEPT = 100
"""Losses reported at most: a partition whose retention is faster than the copy loses again and again."""


class SlotRunner:
    """Runs one slot from `start` until `close`.

    (A) A partition that is taken away shows STOPPED only when nothing of it is in flight and its offset is stored.
    (B) A failure of the slot ends its copying, never the lane: it shows FAILED with the words.
    (C) Everything that brings partitions into the slot, or from one of its sets into another, sets ``_regrouped``.
    """

    def __init__(self, lease: SlotLease, budget: ByteBudget) -> None:
        self._lease = lease
        self._budget = budget
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._wanted: dict[TopicPartition, PartitionLease] = {}
        self._running: dict[TopicPartition, PartitionCopy] = {}
        self._leaving: dict[TopicPartition, PartitionCopy] = {}
        self._stopped: dict[TopicPartition, PartitionProgress] = {}
        self._tallies: dict[TopicPartition, Tally] = {}
        self._ahead: dict[TopicPartition, PartitionLease] = {}  # where those that left would go on
        self._losses: list[Loss] = []
        self._regrouped = True
        self._told: dict[PartitionCopy, tuple[object, ...] | None] = {}
        self._pipeline: Pipeline | None = None
        self._draining = False
        self._drained = False
        self._failure: str | None = None

    @property
    def epoch(self) -> int:
        return self._lease.epoch

    async def start(self) -> None:
        """Begin to copy. Returns at once; what goes wrong shows in `progress`."""
        self._want(self._lease)
        self._task = asyncio.create_task(self._run(), name=f"slot {self._lease.flow} {self._lease.slot}")

    async def apply(self, lease: SlotLease) -> None:
        """Copy the lease's partitions from now on. Settings other than partitions are those of the start: a slot with
        new settings is a new slot."""
        self._want(lease)

    def drain(self) -> None:
        """Stop copying: fetch no more, wait for what is in flight, store offsets and syncs, then show ``drained``.

        Waits as long as the target needs; whoever cannot wait calls `close`.
        """
        self._draining = True
        self._changed.set()

    async def close(self) -> None:
        """Stop at once. What is in flight is copied again by whoever comes next, unless the target has it already."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    def progress(self) -> SlotProgress:
        """What the node should know now."""
        now, wall = time.monotonic(), time.time()
        copied = (progress_of(copy, now, wall) for copy in self._copies())
        return self._progress((*copied, *self._others()), whole=True)

    def news(self) -> SlotProgress:
        """What it should know beyond the last ``news``, which the caller has seen to it that it has."""
        copies = self._copies()
        telling_now = {copy: telling(copy) for copy in copies}
        told, self._told = self._told, telling_now
        if self._regrouped:
            self._regrouped = False
            return self.progress()
        now, wall = time.monotonic(), time.time()
        changed = [copy for copy in copies if (words := telling_now[copy]) is None or words != told[copy]]
        return self._progress(tuple(progress_of(copy, now, wall) for copy in changed), whole=False)

    def _copies(self) -> list[PartitionCopy]:
        return [*self._running.values(), *self._leaving.values()]

    def _progress(self, partitions: tuple[PartitionProgress, ...], *, whole: bool) -> SlotProgress:
        losses = [loss for copy in self._copies() for loss in copy.headway.losses]
        return SlotProgress(
            flow=self._lease.flow,
            slot=self._lease.slot,
            epoch=self._lease.epoch,
            state=self._state(),
            drained=self._drained,
            error=self._trouble(),
            partitions=partitions,
            whole=whole,
            batches=self._batches(),
            losses=tuple(self._losses + losses)[-LOSSES_KEPT:],
            warnings=self._warnings(),
        )

    def _others(self) -> list[PartitionProgress]:
        """Partitions that are not being copied: stopped ones, and those that wait for the pipeline."""
        ahead = self._wanted.keys() - self._running.keys() - self._leaving.keys() - self._stopped.keys()
        waiting = [
            PartitionProgress(
                topic=one.topic,
                partition=one.partition,
                remote_topic=one.remote_topic,
                state=TaskState.WAITING,
                stored=one.start_offset,
            )
            for one in map(self._wanted.__getitem__, ahead)
        ]
        return waiting + list(self._stopped.values())

    def _state(self) -> TaskState:
        if self._failure is not None:
            return TaskState.FAILED
        if self._drained:
            return TaskState.STOPPED
        if self._draining:
            return TaskState.DRAINING
        return TaskState.WAITING if self._pipeline is None else TaskState.RUNNING

    def _trouble(self) -> str | None:
        if self._failure is not None or self._pipeline is None:
            return self._failure
        return self._pipeline.books.trouble

    def _warnings(self) -> tuple[str, ...]:
        if self._pipeline is None:
            return ()
        warnings = (self._pipeline.producing.producers.warning, self._pipeline.books.warning)
        return (*(warning for warning in warnings if warning is not None), *self._pipeline.identities.warnings)

    def _batches(self) -> tuple[BatchCount, ...]:
        if self._pipeline is None:
            return ()
        return tuple(
            BatchCount(path="rebatch" if reason else "pass-through", reason=reason.value, batches=count)
            for reason, count in self._pipeline.counts.items()
        )

    # -- inside

    def _want(self, lease: SlotLease) -> None:
        self._regrouped = True
        self._wanted = {TopicPartition(one.topic, one.partition): one for one in lease.partitions}
        self._lease = dataclasses.replace(self._lease, partitions=lease.partitions, epoch=lease.epoch)
        if self._pipeline is not None and any(self._of_other_topic(partition) for partition in self._running):
            self._pipeline.look_again()
        self._changed.set()

    def _of_other_topic(self, partition: TopicPartition) -> bool:
        """Whether the node speaks of another topic of this name than is being copied."""
        lease = self._wanted.get(partition)
        return lease is not None and not lease.topic_ids.may_be(self._running[partition].topic_ids)

    async def _run(self) -> None:
        try:
            await self._copy()
        except ClusterError as error:
            self._failure = str(error)
            log.exception("slot %d of %s stops", self._lease.slot, self._lease.flow)
        except Exception as error:  # whatever it is, it ends this slot only, and is shown
            self._failure = f"unexpected: {error!r}"
            log.exception("slot %d of %s stops", self._lease.slot, self._lease.flow)

    async def _copy(self) -> None:
        lease = self._lease
        async with AsyncExitStack() as stack:
            clusters: dict[ClientSettings, Cluster] = {}

            async def cluster(settings: ClientSettings) -> Cluster:
                if settings not in clusters:
                    clusters[settings] = await stack.enter_async_context(Cluster(settings))
                return clusters[settings]

            async def producer(settings: ClientSettings, purpose: str) -> ControlProducer:
                return await stack.enter_async_context(ControlProducer(await cluster(settings), purpose=purpose))

            source, target = await cluster(lease.source), await cluster(lease.target)
            offsets, syncs, exact = lease.offsets, lease.offset_syncs, lease.exact_offsets
            books = Bookkeeping(
                offsets=SourceOffsets(await producer(offsets.client, "offsets"), offsets, source=lease.flow.source),
                syncs=OffsetSyncs(await producer(syncs.client, "syncs"), syncs) if syncs is not None else None,
                exact=ExactOffsets(await producer(exact.client, "exact offsets"), exact) if exact is not None else None,
            )
            async with asyncio.TaskGroup() as group:
                pipeline = Pipeline(
                    lease, self._budget, group, source=source, target=target, books=books, made_anew=self._made_anew
                )
                self._pipeline = pipeline
                try:
                    pipeline.start()
                    await self._follow(pipeline)
                finally:
                    pipeline.close()

    async def _follow(self, pipeline: Pipeline) -> None:
        """Bring the pipeline to what is wanted, again and again."""
        while True:
            self._changed.clear()
            if self._draining and not self._drained:
                leaving = self._leave(set(self._running))
                await pipeline.let_go(leaving | set(self._leaving.values()))
                self._left(set(self._leaving.values()))
                self._drained = True
            elif not self._draining:
                gone = self._leave(self._running.keys() - self._wanted.keys())
                if gone:
                    pipeline.spawn(self._let_go(pipeline, gone))
                for partition in self._wanted.keys() - self._running.keys() - self._leaving.keys():
                    copy = pipeline.add(self._start_of(partition, pipeline.identities))
                    copy.tally = self._tallies.setdefault(partition, copy.tally)  # it counts since the lane's start
                    self._running[partition] = copy
                    self._stopped.pop(partition, None)
                    self._regrouped = True
            await self._changed.wait()

    def _start_of(self, partition: TopicPartition, identities: Identities) -> PartitionLease:
        """Its lease, unless this slot had the partition before and knows more: the lease may have been made before the
        partition stopped, or before its topic was made anew."""
        lease = self._wanted[partition]
        ahead = self._ahead.pop(partition, None)
        if ahead is None:
            return lease
        given, known = lease.topic_ids.source, ahead.topic_ids.source
        if identities.is_gone(given) or (given is None and ahead.made_anew):
            return ahead
        if given is not None and known is not None and given != known:
            return lease
        return ahead if (ahead.start_offset or 0) > (lease.start_offset or 0) else lease

    def _made_anew(self, copy: PartitionCopy, source_id: UUID) -> None:
        """The source topic is another one now: what is in flight of the old one is waited for, then the new one is
        copied from its beginning."""
        if self._pipeline is None or self._running.get(copy.source) is not copy:
            return
        reason = source_made_anew(copy.source.topic, self._lease.flow.source)
        copy.headway.lose(
            copy.source, copy.headway.position, max(copy.headway.position, copy.headway.end_offset), reason
        )
        gone = self._leave({copy.source})
        ids = copy.topic_ids._replace(source=source_id)
        self._ahead[copy.source] = dataclasses.replace(
            _where_it_stands(copy), start_offset=0, made_anew=True, topic_ids=ids
        )
        self._pipeline.spawn(self._let_go(self._pipeline, gone))

    def _leave(self, partitions: set[TopicPartition]) -> set[PartitionCopy]:
        self._regrouped = True
        leaving = {partition: self._running.pop(partition) for partition in partitions}
        self._leaving |= leaving
        return set(leaving.values())

    async def _let_go(self, pipeline: Pipeline, copies: set[PartitionCopy]) -> None:
        await pipeline.let_go(copies)
        self._left(copies)
        self._changed.set()

    def _left(self, copies: set[PartitionCopy]) -> None:
        self._regrouped = True
        now, wall = time.monotonic(), time.time()
        for copy in copies:
            self._leaving.pop(copy.source, None)
            self._stopped[copy.source] = progress_of(copy, now, wall, stopped=True)
            self._ahead.setdefault(copy.source, _where_it_stands(copy))
            self._losses += copy.headway.losses
        del self._losses[:-LOSSES_KEPT]


def _where_it_stands(copy: PartitionCopy) -> PartitionLease:
    """A lease to go on from what is stored."""
    return PartitionLease(
        topic=copy.source.topic,
        partition=copy.source.partition,
        remote_topic=copy.target.topic,
        start_offset=0 if copy.begins_anew else copy.headway.stored,
        topic_ids=copy.topic_ids,
        made_anew=copy.begins_anew,
    )
