"""The data path of one source task, connecting partitions, fetching, producing and offset commits."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine
from functools import partial
from typing import Any
from uuid import UUID

from flows.batch.choice import Reason, rules_from
from flows.commit.committer import Committer
from flows.commit.transaction_committer import TransactionCommitter
from flows.lane.byte_budget import ByteBudget
from flows.lane.loop_turns import LoopTurns
from flows.partition.frame_transform import FrameTransform, LaneTransforms
from flows.partition.health import PartitionMetrics
from flows.partition.rejection import Rejection
from flows.partition.replicator import PartitionReplicator
from flows.partition.state import PartitionCallbacks, PartitionOptions
from flows.partition.timeouts import TIMEOUTS, Timeouts
from flows.source.end_offsets import EndOffsets
from flows.source.fetch_limit import FetchLimit
from flows.source.fetcher import Fetcher
from flows.source.record_limits import RecordLimits, record_limit
from flows.source.topic_id_checker import TopicIdChecker
from flows.source_task.bottleneck_watch import BottleneckWatch
from flows.source_task.spawn import Spawn
from flows.target.dead_letter_writer import DeadLetterWriter
from flows.target.lost_copies import LostCopies
from flows.target.producer import AlwaysOpen, Producer
from flows.target.producer_ids import ProducerIds
from flows.target.size_limits import SizeLimits
from flows.transaction.transactions import Transactions
from mm2.core.lanes.lease import PartitionLease, SourceTaskLease
from mm2.core.lanes.losses import Loss, LossKind, LossPolicy, OnDataLoss
from mm2.core.lanes.progress_reports import BatchCount
from mm2.core.offsets.exact_offset_records import TopicIds
from mm2.core.topics.topic_recreated import uncopied
from mm2.kafka.backoff import Backoff
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterClosed, ClusterError
from mm2.kafka.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

HELD_SHARE = 8
"""A partition may hold an eighth of the lane's bytes: enough for five batches of 1 MiB in flight and more waiting;
a slow partition leaves most of the budget to the others."""

MOST_HELD_SHARE = 2
"""With large responses from a source far away, it may hold half of them: they are as large as that only if few
partitions share the link."""

STARVED_AFTER_S = 1.0
"""If a fetch has waited this long for room, partitions whose batches are not acknowledged release their bytes."""

COMMIT_RETRY_S = 0.1
"""Pause before offsets that could not be stored are stored again, so that a target that rejects them at once is not
overloaded."""

DELETED_TIMEOUT_S = 2.0
"""How long a partition with records left to copy waits, when it leaves, for the answer whether its topic was deleted:
one metadata request."""

REPORT_INTERVAL_S = 0.5
"""How often positions are reported as stored, if the node stores them."""

CHECK_INTERVAL_S = 1.0
"""Interval of the check for starvation and old metadata."""


class Pipeline:
    """Connects partitions with fetcher, producer, query and committer, and runs the background loops.

    (A) All background work belongs to ``group``: an unexpected error in it ends the source task with that error.
    """

    def __init__(
        self,
        lease: SourceTaskLease,
        budget: ByteBudget,
        group: asyncio.TaskGroup,
        *,
        limit: FetchLimit,
        source: Cluster,
        target: Cluster,
        committer: Committer,
        dead_letters: DeadLetterWriter | None,
        lane_query: LaneTransforms | None,
        router: Callable[[Spawn], FrameTransform] | None = None,
        turns: LoopTurns,
        on_source_recreated: Callable[[PartitionReplicator, UUID], None],
        timeouts: Timeouts = TIMEOUTS,
    ) -> None:
        """``dead_letters`` None: records that cannot be copied stop their partition. ``lane_query``: of a SQL lane.
        ``router``: writes the records of a task with routing, given where to run its work. ``turns``: of the lane.
        ``on_source_recreated`` is called when a partition's source topic was recreated, with the new id."""
        self._lease = lease
        self._timeouts = timeouts
        self._budget = budget
        self._turns = turns
        self._group = group
        self._source = source
        self._target = target
        self._committer = committer
        self._timeouts = timeouts
        self._rules = rules_from(lease.produce, lease.fetch)
        on_data_loss = lease.losses.on_data_loss if lease.losses is not None else OnDataLoss.CONTINUE
        self._policy = LossPolicy(flow=None if lease.offsets is None else lease.flow, on_data_loss=on_data_loss)
        self._transform = self._transform_of(lease, lane_query, router)
        self._counts: Counter[Reason] = Counter()
        self._partitions: set[PartitionReplicator] = set()
        self._idle = asyncio.Event()
        self._closed = False
        self._topic_ids = TopicIdChecker(
            lease.flow,
            source,
            target,
            on_ids_changed=committer.topic_ids_changed,
            on_source_recreated=on_source_recreated,
        )
        self._fetcher = Fetcher(
            source, lease.fetch, budget, self.spawn, self._topic_ids, limit=limit, timeouts=timeouts
        )
        self._ends = EndOffsets(source, lease.fetch.isolation_level, self._partitions, self._topic_ids, self.spawn)
        self._transactions = self._with_transactions(lease, target, committer)
        self._producer, self._run_producer = self._producer_of(lease)
        self.watch = BottleneckWatch(self._partitions, self._fetcher, self._producer, budget)
        committer.report_lost_copies(LostCopies(self.spawn, self._refresh).noticed)
        self._dead_letters = dead_letters
        self.is_replaced = self._topic_ids.is_replaced
        # bound to the implementations: a forwarding method would cost a call per batch
        self._callbacks = PartitionCallbacks(
            release=budget.release,
            fetch_changed=self._fetcher.update,
            send_changed=self._producer.update,
            wake_later=self._wake_later,
            size_rejected=SizeLimits(target, self.spawn).read,
            start_chosen=committer.start_chosen,
            acknowledged=committer.acknowledged,
            skipped=committer.skipped,
            dead_letter=self._write_dead_letter,
            left_out=committer.left_out,
            passed_over=committer.passed_over,
            lost=committer.lost,
            truncated=committer.truncated,
            drained=self._drained,
            remote_end_moved_back=self._remote_end_moved_back,
        )
        self._options = PartitionOptions(
            rules=self._rules,
            max_in_flight=lease.produce.max_in_flight,
            max_held_bytes=max(1, budget.limit // HELD_SHARE),
            most_held_bytes=max(1, budget.limit // MOST_HELD_SHARE),
            check_crcs=lease.fetch.check_crcs,
            dead_letters=dead_letters.topic if dead_letters is not None else None,
            policy=self._policy,
            transform=self._transform,
            timeouts=timeouts,
        )

    def _with_transactions(self, lease: SourceTaskLease, target: Cluster, committer: Committer) -> Transactions | None:
        if lease.transactions is None:
            return None
        assert lease.producer is not None
        assert isinstance(committer, TransactionCommitter)
        return Transactions(
            target,
            lease.transactions,
            lease.producer,
            committer,
            partitions=self._partitions,
            spawn=self.spawn,
            timeouts=self._timeouts,
        )

    def _producer_of(self, lease: SourceTaskLease) -> tuple[Producer, Callable[[], Coroutine[Any, Any, None]]]:
        """Return the producer, and what runs for as long as it sends."""
        target, transactions = self._target, self._transactions
        new_producer = partial(
            Producer, target, lease.produce, self._budget, self.spawn, turns=self._turns, timeouts=self._timeouts
        )
        if transactions is None:
            ids = ProducerIds(target, lease.produce, self.spawn, lease.producer)
            return new_producer(producer_ids=ids, gate=AlwaysOpen()), ids.keep_renewed
        producer = new_producer(producer_ids=transactions, gate=transactions)
        transactions.connect(producer)
        return producer, transactions.run

    def _transform_of(
        self,
        lease: SourceTaskLease,
        lane_query: LaneTransforms | None,
        router: Callable[[Spawn], FrameTransform] | None,
    ) -> FrameTransform | None:
        if lease.query is not None:
            assert lane_query is not None, "a source task with a query is in a SQL lane"
            limits = RecordLimits(self._source, record_limit(lease.fetch))
            return lane_query.of_source_task(lease.query.name, self._rules, limits, self.spawn)
        return None if router is None else router(self.spawn)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` in the background of this source task."""
        if self._closed:
            work.close()
        else:
            self._group.create_task(work)

    def start(self) -> None:
        """Start the loops that run for the life of the source task."""
        self.spawn(self._flush_offsets())
        self.spawn(self._check())
        self.spawn(self.watch.run())
        self.spawn(self._ends.run())
        self.spawn(self._run_producer())

    def close(self) -> None:
        """Stop immediately: no more work is started."""
        self._closed = True
        for partition in self._partitions:
            partition.abandon()

    def add(self, lease: PartitionLease, metrics: PartitionMetrics) -> PartitionReplicator:
        """Start to copy a partition; ``metrics`` continue to count."""
        source, target = self._source.settings, self._target.settings
        partition = PartitionReplicator(
            lease,
            self._callbacks,
            self._options,
            source_backoff=Backoff.for_retries(source),
            target_backoff=Backoff.for_retries(target),
            counts=self._counts,
            now=time.monotonic(),
            metrics=metrics,
        )
        if lease.uncopied_of_deleted_topic is not None and partition.stopped_by is None:
            partition.lose(
                *lease.uncopied_of_deleted_topic,
                uncopied(*lease.uncopied_of_deleted_topic, is_deleted=False),
                kind=LossKind.TOPIC_RECREATED,
            )
        self._partitions.add(partition)
        self._topic_ids.add(partition)
        self._committer.add(partition, lease)
        self._fetcher.update(partition)
        return partition

    async def drain(self, partitions: set[PartitionReplicator]) -> None:
        """Stop copying these partitions. On return none of their batches is in flight, and their offsets are stored.

        Takes as long as the target needs for the batches in flight; the caller limits the wait.
        """
        for partition in partitions:
            partition.drain(time.monotonic())
        while True:
            self._idle.clear()
            if all(partition.is_idle for partition in partitions):
                if self._transform is not None:
                    await asyncio.gather(*map(self._transform.remove, partitions))
                await self._flush()
                if all(self._committer.is_committed(partition) for partition in partitions):
                    break
                await asyncio.sleep(COMMIT_RETRY_S)
            else:
                await self._idle.wait()
        await self._committer.remove(partitions)
        for partition in partitions:
            self._partitions.discard(partition)
            self._fetcher.remove(partition)
            self._producer.remove(partition)

    async def report_deleted_topics(self, partitions: Collection[PartitionReplicator]) -> set[PartitionReplicator]:
        """Report the records left to copy of drained partitions, if their source topic was deleted or recreated.

        Return them when their losses are recorded, or cannot be. If the source cannot be asked, nothing is reported.
        """
        left = {one: one.first_left for one in partitions if 0 <= one.first_left < one.end_offset}
        if not left:
            return set()
        try:
            async with asyncio.timeout(DELETED_TIMEOUT_S):
                found = (await self._source.metadata({one.source.topic for one in left})).topics
        except (ClusterError, TimeoutError) as error:
            log.debug("cannot find out whether topics were deleted: %s", error)
            return set()
        gone: set[PartitionReplicator] = set()
        for one, first in left.items():
            info = found.get(one.source.topic)
            if info is None:
                continue
            is_deleted = info.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if is_deleted or not TopicIds(source=info.topic_id).may_be(one.topic_ids):
                kind = LossKind.TOPIC_DELETED if is_deleted else LossKind.TOPIC_RECREATED
                one.lose(first, one.end_offset, uncopied(first, one.end_offset, is_deleted=is_deleted), kind=kind)
                gone.add(one)
        await self._committer.losses_recorded()
        return gone

    def refresh_soon(self) -> None:
        """Refresh topic ids, since a topic may have been recreated."""
        self.spawn(self._refresh())

    # -- reports

    @property
    def error(self) -> str | None:
        """The error that prevents writing source offsets or offset syncs."""
        return (self._transactions.error if self._transactions is not None else None) or self._committer.error

    @property
    def warnings(self) -> tuple[str, ...]:
        warnings = (
            self._producer.producer_ids.warning,
            *self._committer.warnings,
            *self._topic_ids.warnings,
        )
        return tuple(warning for warning in warnings if warning is not None)

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The newest losses, of all partitions that the source task has had."""
        return self._committer.losses

    @property
    def throttled_s(self) -> tuple[float, float]:
        """The throttle times that the brokers of source and target have reported so far, in seconds."""
        return self._source.throttled_s, self._target.throttled_s

    @property
    def batch_counts(self) -> tuple[BatchCount, ...]:
        is_queried = self._lease.query is not None
        return tuple(
            BatchCount(
                path="sql" if is_queried else "rebatch" if reason else "pass-through",
                reason=reason.value,
                batches=count,
            )
            for reason, count in self._counts.items()
        )

    # -- called by partitions

    def _wake_later(self, partition: PartitionReplicator, delay: float) -> None:
        self.spawn(self._wake(partition, delay))

    def _write_dead_letter(self, partition: PartitionReplicator, rejection: Rejection) -> None:
        assert self._dead_letters is not None
        self.spawn(self._dead_letters.write(partition, rejection))

    def _drained(self, _: PartitionReplicator) -> None:
        self._idle.set()

    def _remote_end_moved_back(self, _: PartitionReplicator) -> None:
        self.refresh_soon()

    # -- loops

    async def _wake(self, partition: PartitionReplicator, delay: float) -> None:
        await asyncio.sleep(delay)
        partition.wake(time.monotonic())

    async def _flush_offsets(self) -> None:
        offsets = self._lease.offsets
        interval = REPORT_INTERVAL_S if offsets is None else offsets.flush_interval_ms / 1000
        while True:
            await asyncio.sleep(interval)
            await self._flush()
            self._committer.release_syncs()

    async def _flush(self) -> None:
        self._topic_ids.check(list(self._partitions))
        await self._committer.flush()

    async def _check(self) -> None:
        refreshed = time.monotonic()
        max_age = min(self._source.settings.metadata_max_age_ms, self._target.settings.metadata_max_age_ms) / 1000
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            now = time.monotonic()
            self._committer.commit_passed_over()
            if self._lease.validates_partitions:
                for partition in self._partitions:
                    partition.validate()
            if self._budget.waited(asyncio.get_running_loop().time()) > STARVED_AFTER_S:
                for partition in list(self._partitions):
                    if partition.unanswered_for(now) > STARVED_AFTER_S:
                        partition.release_memory(now)
            if now - refreshed > max_age:
                refreshed = now
                await self._refresh()

    async def _refresh(self) -> None:
        try:
            await self._fetcher.refresh()
            await self._target.refresh({partition.target.topic for partition in self._partitions})
            self._topic_ids.check(list(self._partitions))
        except ClusterClosed:
            raise
        except ClusterError as error:
            log.debug("failed to refresh metadata: %s", error)  # a later leader lookup retries and reports the error
