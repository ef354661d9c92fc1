"""One slot in a lane: what the node orders, brought to a pipeline, and what the node is told."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from contextlib import AsyncExitStack

from flows.budget import ByteBudget
from flows.copy import PartitionCopy
from flows.offsets import SourceOffsets
from flows.pipeline import Pipeline
from flows.report import progress_of
from flows.syncs import OffsetSyncs
from mm2.core.client_settings import ClientSettings
from mm2.core.lease import BatchCount, Loss, PartitionLease, PartitionProgress, SlotLease, SlotProgress, TaskState
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
        self._losses: list[Loss] = []
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
        copies = [*self._running.values(), *self._leaving.values()]
        return SlotProgress(
            flow=self._lease.flow,
            slot=self._lease.slot,
            epoch=self._lease.epoch,
            state=self._state(),
            drained=self._drained,
            error=self._trouble(),
            partitions=(*(progress_of(copy, now, wall) for copy in copies), *self._others()),
            batches=self._batches(),
            losses=tuple(self._losses + [loss for copy in copies for loss in copy.losses])[-LOSSES_KEPT:],
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
        syncs = self._pipeline.syncs
        return self._pipeline.offsets.trouble or (syncs.trouble if syncs is not None else None)

    def _warnings(self) -> tuple[str, ...]:
        warning = self._pipeline.producing.producers.warning if self._pipeline is not None else None
        return () if warning is None else (warning,)

    def _batches(self) -> tuple[BatchCount, ...]:
        if self._pipeline is None:
            return ()
        return tuple(
            BatchCount(path="rebatch" if reason else "pass-through", reason=reason.value, batches=count)
            for reason, count in self._pipeline.counts.items()
        )

    # -- inside

    def _want(self, lease: SlotLease) -> None:
        self._wanted = {TopicPartition(one.topic, one.partition): one for one in lease.partitions}
        self._lease = dataclasses.replace(self._lease, partitions=lease.partitions, epoch=lease.epoch)
        self._changed.set()

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

            source, target = await cluster(lease.source), await cluster(lease.target)
            offsets_producer = await stack.enter_async_context(
                ControlProducer(await cluster(lease.offsets.client), purpose="offsets")
            )
            syncs = None
            if lease.offset_syncs is not None:
                syncs_producer = await stack.enter_async_context(
                    ControlProducer(await cluster(lease.offset_syncs.client), purpose="syncs")
                )
                syncs = OffsetSyncs(syncs_producer, lease.offset_syncs)
            async with asyncio.TaskGroup() as group:
                pipeline = Pipeline(
                    lease,
                    self._budget,
                    group,
                    source=source,
                    target=target,
                    offsets=SourceOffsets(offsets_producer, lease.offsets, source=lease.flow.source),
                    syncs=syncs,
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
                    self._running[partition] = pipeline.add(self._start_of(partition))
                    self._stopped.pop(partition, None)
            await self._changed.wait()

    def _start_of(self, partition: TopicPartition) -> PartitionLease:
        """Its lease; if this slot had it before and the lease was made before it stopped, from where it stopped."""
        lease = self._wanted[partition]
        before = self._stopped.get(partition)
        if before is None or before.stored is None or before.stored <= (lease.start_offset or 0):
            return lease
        return dataclasses.replace(lease, start_offset=before.stored)

    def _leave(self, partitions: set[TopicPartition]) -> set[PartitionCopy]:
        leaving = {partition: self._running.pop(partition) for partition in partitions}
        self._leaving |= leaving
        return set(leaving.values())

    async def _let_go(self, pipeline: Pipeline, copies: set[PartitionCopy]) -> None:
        await pipeline.let_go(copies)
        self._left(copies)
        self._changed.set()

    def _left(self, copies: set[PartitionCopy]) -> None:
        now, wall = time.monotonic(), time.time()
        for copy in copies:
            self._leaving.pop(copy.source, None)
            self._stopped[copy.source] = progress_of(copy, now, wall, stopped=True)
            self._losses += copy.losses
        del self._losses[:-LOSSES_KEPT]
