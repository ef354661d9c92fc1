"""The transactions of one source task, one after the other."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection

from flows.batch.target_batch import ProducerId
from flows.commit.transaction_committer import TransactionCommitter
from flows.partition.replicator import PartitionReplicator
from flows.partition.timeouts import TIMEOUTS, Timeouts
from flows.source_task.spawn import Spawn
from flows.target.produce_errors import from_response
from flows.target.producer import Producer
from flows.transaction.ack_deadline import AckDeadline
from flows.transaction.excluded_partitions import ExcludedPartitions
from flows.transaction.missing_markers import MissingMarkers
from flows.transaction.transaction import Transaction
from flows.transaction.transactional_producer import CannotCommit, TransactionalProducer
from mm2.core.lanes.lease import TaskProducer, TransactionsLease
from mm2.core.naming.names import TopicPartition
from mm2.kafka.backoff import Backoff
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.logs.record_writer import NotWritten

log = logging.getLogger(__name__)

REPORTED_ABORTS = 3
"""So many aborted transactions in a row are reported."""


class TransactionAborter:
    """Aborts a transaction, and moves its partitions back to where the last committed one ended.

    `abort` and `abort_open` raise ClusterErrors, also Fenced.
    """

    def __init__(
        self,
        producer: TransactionalProducer,
        committer: TransactionCommitter,
        *,
        answers: AckDeadline,
        held: ExcludedPartitions,
        markers: MissingMarkers,
        backoff: Backoff,
        new_epoch: Callable[[], Awaitable[None]],
    ) -> None:
        """``new_epoch`` continues the producer with the next epoch."""
        self._producer = producer
        self._committer = committer
        self._answers = answers
        self._held = held
        self._markers = markers
        self._backoff = backoff
        self._new_epoch = new_epoch
        self._in_a_row = 0
        self._reason = ""

    @property
    def error(self) -> str | None:
        """Why one transaction after the other is aborted."""
        if self._in_a_row < REPORTED_ABORTS:
            return None
        id = self._producer.transactional_id
        return f"the last {self._in_a_row} transactions of {id} were aborted: {self._reason}"

    def committed(self) -> None:
        """A transaction was committed."""
        self._in_a_row = 0
        self._backoff.reset()

    async def abort(self, transaction: Transaction, reason: CannotCommit, sending: Producer) -> None:
        """Abort the open transaction, continue with the next epoch, and pause."""
        level = logging.DEBUG if self._in_a_row else logging.WARNING  # `error` is shown if there are more
        log.log(level, "transaction of %s aborted: %s", self._producer.transactional_id, reason)
        self._in_a_row, self._reason = self._in_a_row + 1, str(reason)
        transaction.close()
        for partition in transaction.partitions:
            partition.await_roll_back(time.monotonic())
        if reason.late:
            sending.disconnect()
        await self._answers.all_received(transaction, sending)
        with_committed = await self._markers.without_commit(transaction.partitions)
        await self._producer.abort()
        moved_back = [partition for partition in transaction.partitions if partition.has_uncommitted]
        for partition in transaction.partitions:
            partition.roll_back(time.monotonic())
        self._committer.aborted(moved_back)
        self._copy_again(with_committed)
        await self._new_epoch()  # when all markers are written that are going to be
        self._markers.aborted(transaction.partitions, with_committed)
        for partition in reason.late:
            self._held.hold(partition, str(reason))
        if not reason.late:
            await asyncio.sleep(self._backoff.next())

    async def abort_open(self) -> None:
        """Abort what has no marker yet although it was aborted."""
        found = self._markers.take_open()
        try:
            refused = await self._producer.add({partition.target for partition in found})
        except CannotCommit:
            await self._new_epoch()
            return
        if found and not refused:
            await self._producer.abort()
            self._copy_again([partition for partition, with_committed in found.items() if with_committed])

    def _copy_again(self, partitions: Collection[PartitionReplicator]) -> None:
        """The last committed transaction of these partitions is aborted: it had no marker in them."""
        for partition in partitions:
            partition.roll_back_committed(time.monotonic())
            self._committer.truncated(partition, partition.position)


RENEW_EVERY_S = 86_400.0
"""Brokers forget a transactional id that was not used for transactional.id.expiration.ms, a week."""


class Transactions:
    """Implements `flows.target.producer.SendGate`, and gives partitions their producer id.

    (A) Records, their source offsets and their exact offsets are in the same transaction; positions, metrics and offset
        syncs move when it is committed.
    (B) A transaction is committed only if it is known of every batch that was sent whether the target has it. A batch
        that the target surely does not have is left for a later transaction; the others are committed.
    (C) Otherwise it is aborted, and its partitions are fetched again from their committed positions, with the next
        producer epoch. Once a commit was requested, it is only repeated.
    (D) If another owner has acquired the transactional id, or the broker has timed the transaction out, `run` raises
        Fenced and the source task ends: the node restarts it from the stored offsets.
    """

    def __init__(
        self,
        cluster: Cluster,
        lease: TransactionsLease,
        producer: TaskProducer,
        committer: TransactionCommitter,
        *,
        partitions: Collection[PartitionReplicator],
        spawn: Spawn,
        timeouts: Timeouts = TIMEOUTS,
    ) -> None:
        """``partitions``: those of the source task at any time."""
        self.transactional_id = producer.transactional_id
        self._lease = lease
        self._committer = committer
        self._partitions = partitions
        self._producer = TransactionalProducer(cluster, producer, timeout_ms=lease.timeout_ms, timeouts=timeouts)
        self._used: dict[TopicPartition, ProducerId] = {}
        self._transaction: Transaction | None = None
        self._waiting: dict[PartitionReplicator, None] = {}  # are offered to the producer again
        self._held = ExcludedPartitions(cluster, spawn, partitions=partitions, released=self._released)
        self._needs_epoch = False
        self._commit_now = False
        self._changed = asyncio.Event()
        self._answers = AckDeadline(lease, self._held, self._changed)
        self._markers = MissingMarkers(
            cluster,
            spawn,
            partitions=partitions,
            commit_again=self._commit_again,
            released=self._released,
            on_open=self._changed.set,
        )
        self._aborts = TransactionAborter(
            self._producer,
            committer,
            answers=self._answers,
            held=self._held,
            markers=self._markers,
            backoff=Backoff.for_retries(cluster.settings),
            new_epoch=self._new_epoch,
        )
        self._ended = asyncio.Condition()
        self._sending: Producer
        committer.on_due = self._changed.set
        committer.commit_now = self.commit_now

    def connect(self, sender: Producer) -> None:
        """``sender`` sends the batches."""
        self._sending = sender

    @property
    def error(self) -> str | None:
        """Why nothing is committed."""
        return self._aborts.error or self._producer.error

    # -- SendGate

    def admits(self, partition: PartitionReplicator) -> bool:
        """Return whether the next batch may be sent now. If not, the partition is offered to the producer again."""
        transaction = self._transaction
        if self._committer.has_unrecorded_loss(partition) and not self._is_in_transaction(partition):
            self._held.hold_while(partition, self._committer.has_unrecorded_loss)
        if transaction is not None and not self._is_out(partition):
            if transaction.admits(partition):
                return True
            if not transaction.is_closing:
                self._changed.set()
        self._waiting[partition] = None
        if transaction is None:
            self._changed.set()
        return False

    def sent(self, size: int) -> None:
        """A batch of ``size`` bytes is being sent."""
        transaction = self._transaction
        assert transaction is not None
        transaction.sent(size)
        if transaction.is_full:
            self._changed.set()

    def answered(self) -> None:
        """A request was answered, or failed."""
        if self._transaction is not None and self._transaction.is_closing:
            self._changed.set()

    # -- producer ids

    is_idempotent = True
    warning: str | None = None

    def assign(self, partition: PartitionReplicator) -> None:
        """Assign the partition the producer id, if its target does not know it; otherwise one with the next epoch."""
        transaction = self._transaction
        if transaction is None or partition not in transaction.partitions:
            current = self._producer.id
            if self._used.get(partition.target) != current:
                self._used[partition.target] = current
                partition.set_producer_id(current)
                return
            self._needs_epoch = True
        self._changed.set()

    def disable_idempotence(self, reason: str) -> None:
        """The target rejects the producer for good: the source task ends, and never writes outside transactions."""
        self._producer.fail(f"the target does not allow transactions: {reason}")
        self._changed.set()

    # -- transactions

    async def commit_now(self) -> None:
        """Commit what is open, or what waits for a transaction, at once; return when that transaction has ended.

        Everything committed before can then be read: its markers are written.
        """
        if self._transaction is None and self._producer.is_confirmed and not self._committer.is_due:
            return
        self._commit_now = True
        self._changed.set()
        async with self._ended:
            await self._ended.wait()

    async def run(self) -> None:
        """Run one transaction after the other, until cancelled. Raises ClusterErrors, also Fenced."""
        self._markers.start()
        while True:
            await self._wait_for_work()
            if self._markers.has_open:
                await self._aborts.abort_open()
            if self._needs_epoch:
                await self._new_epoch()
            if self._committer.is_due or self._may_offer():
                await self._run_one()
            elif not self._producer.is_confirmed:
                await self._producer.confirm()
            async with self._ended:
                self._ended.notify_all()

    async def _wait_for_work(self) -> None:
        while not (self._needs_epoch or self._committer.is_due or self._may_offer() or self._markers.has_open):
            if self._commit_now and not self._producer.is_confirmed:
                return
            self._commit_now = False
            self._changed.clear()
            try:
                async with asyncio.timeout(RENEW_EVERY_S):
                    await self._changed.wait()
            except TimeoutError:
                self._needs_epoch = True
            self._producer.check()

    def _may_offer(self) -> bool:
        return any(not self._is_out(partition) for partition in self._waiting)

    async def _run_one(self) -> None:
        transaction = self._transaction = Transaction(self._lease)
        waiting, self._waiting = self._waiting, {}
        for partition in waiting:
            if partition in self._partitions and not self._is_out(partition):
                transaction.pending_partitions[partition] = None
        try:
            if not await self._fill(transaction):
                return
            transaction.close()
            self._offer([partition for partition in transaction.partitions if partition.repeats_next])
            await self._answers.settle(transaction, self._sending, self._producer)
            await self._write_offsets(transaction)
        except CannotCommit as reason:
            await self._aborts.abort(transaction, reason, self._sending)
        else:
            if transaction.added:
                await self._commit(transaction)
        finally:
            self._transaction = None
            self._commit_now = False

    async def _commit(self, transaction: Transaction) -> None:
        await self._producer.commit()
        if self._commit_now:
            await self._producer.confirm()
        self._aborts.committed()
        self._held.committed(transaction.partitions)
        self._markers.committed(transaction.partitions, time.monotonic())
        self._committer.committed(time.monotonic(), time.time())

    async def _fill(self, transaction: Transaction) -> bool:
        """Add partitions and let them send until the transaction is due; return False if there is nothing to commit."""
        while True:
            self._changed.clear()
            self._producer.check()
            due_in = transaction.due_in(time.monotonic())
            if due_in == 0 or transaction.lost is not None or (due_in is not None and self._commit_now):
                break
            if transaction.pending_partitions:
                await self._join(transaction)
                continue
            if due_in is None:  # nothing was added at the coordinator
                break
            try:
                async with asyncio.timeout(due_in):
                    await self._changed.wait()
            except TimeoutError:
                break
        self._waiting.update(transaction.pending_partitions)
        return bool(transaction.partitions) or self._committer.is_due

    async def _join(self, transaction: Transaction) -> None:
        partitions = list(transaction.pending_partitions)
        outputs = {one.target for one in partitions} | self._committer.output_partitions(partitions)
        refused = await self._add(transaction, outputs)
        for partition in partitions:
            if (code := refused.get(partition.target)) is not None:
                transaction.pending_partitions.pop(partition, None)
                partition.leader_unavailable(from_response(code), time.monotonic())
        if not refused.keys() & outputs:
            transaction.partitions_added(partitions, time.monotonic())
            for partition in partitions:
                self._waiting.pop(partition, None)
            self._offer(partitions)

    async def _add(self, transaction: Transaction, outputs: set[TopicPartition]) -> dict[TopicPartition, int]:
        """Add partitions to the transaction; return those that were refused, and then none was added.

        Raises BrokerError if those of the offsets topic are refused.
        """
        refused = await self._producer.add(outputs - transaction.added)
        self._committer.refused(refused)
        if not refused:
            transaction.added |= outputs
        return refused

    async def _write_offsets(self, transaction: Transaction) -> None:
        await self._committer.losses_recorded()
        for partition in transaction.partitions:
            if partition.has_uncommitted and self._committer.is_held_back(partition):
                raise CannotCommit(f"a loss of {partition.source} is not recorded yet")
        records = self._committer.prepare(transaction.partitions)
        while await self._add(transaction, set(records)):
            records = self._committer.prepare(transaction.partitions)  # without what was refused
        try:
            await self._producer.write(records, deadline=time.monotonic() + self._answers.grace_s)
        except NotWritten as failed:
            self._committer.write_failed(failed.partition, failed.error)
            raise CannotCommit(str(failed)) from failed

    async def _new_epoch(self) -> None:
        """Continue the producer with the next epoch. Nothing may be in flight."""
        current = await self._producer.next_epoch()
        self._needs_epoch = False
        self._used = {partition.target: current for partition in self._partitions}
        for partition in self._partitions:
            partition.set_producer_id(current)

    # -- inside

    def _is_out(self, partition: PartitionReplicator) -> bool:
        """Return whether the partition has to stay out of transactions now."""
        return self._held.holds(partition) or self._markers.keeps_out(partition)

    def _commit_again(self, partition: PartitionReplicator) -> None:
        self._waiting[partition] = None
        self._changed.set()

    def _released(self, partition: PartitionReplicator) -> None:
        """A partition may join transactions again."""
        self._sending.update(partition)

    def _is_in_transaction(self, partition: PartitionReplicator) -> bool:
        return self._transaction is not None and partition in self._transaction.partitions

    def _offer(self, partitions: Collection[PartitionReplicator]) -> None:
        for partition in partitions:
            self._sending.update(partition)
