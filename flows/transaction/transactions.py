"""The transactions of one source task, one after the other."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import TypeVar

from flows.batch.target_batch import ProducerId
from flows.commit.transaction_committer import TransactionCommitter
from flows.partition.replicator import PartitionReplicator
from flows.partition.timeouts import UNANSWERED_REPORT_S
from flows.source_task.spawn import Spawn
from flows.target.produce_errors import from_response
from flows.target.producer import Producer
from flows.transaction.held_partitions import HeldPartitions
from flows.transaction.record_writer import PURPOSE, NotWritten, RecordWriter
from flows.transaction.transaction import Transaction
from mm2.core.lanes.lease import TaskProducer, TransactionsLease
from mm2.core.naming.names import TopicPartition
from mm2.kafka.backoff import Backoff
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterClosed, ClusterError
from mm2.kafka.logs.transaction_coordinator import Fenced, TransactionCoordinator
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.transaction_requests import ProducerIdAndEpoch

log = logging.getLogger("mm2.transactions")

T = TypeVar("T")

ANSWERS_S = 1.0
"""How long an aborted transaction waits for answers to requests in flight, before their connections are closed."""

REPORTED_ABORTS = 3
"""So many aborted transactions in a row are reported."""

RENEW_EVERY_S = 86_400.0
"""Brokers forget a transactional id that was not used for transactional.id.expiration.ms, a week."""

_CONCURRENT_MS, _CONCURRENT_MAX_MS = 4, 20  # the coordinator is still writing the markers of the last transaction

_REFUSED = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
_ABORTED = frozenset(
    {
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
"""The transaction cannot be committed any more, but the producer can continue with the next epoch."""


class Aborted(Exception):
    """The transaction has to be aborted. ``late``: partitions whose batches were not acknowledged in time."""

    def __init__(self, reason: str, late: Collection[PartitionReplicator] = ()) -> None:
        super().__init__(reason)
        self.late = late


class Transactions:
    """Implements `flows.target.send_gate.SendGate`, and gives partitions their producer id.

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
    ) -> None:
        """``partitions``: those of the source task at any time."""
        self.transactional_id = producer.transactional_id
        self.error: str | None = None
        self._cluster = cluster
        self._lease = lease
        self._grace_s = max(1.0, (lease.timeout_ms - lease.interval_ms) / 3000)  # of each step after the interval
        self._committer = committer
        self._partitions = partitions
        self._coordinator = TransactionCoordinator(
            cluster, producer.transactional_id, timeout_ms=lease.timeout_ms, purpose=PURPOSE
        )
        self._producer = ProducerIdAndEpoch(producer.producer_id, producer.epoch)
        self._writer = RecordWriter(cluster, self._coordinator, producer.transactional_id)
        self._backoff = Backoff.for_retries(cluster.settings)
        self._used: dict[TopicPartition, ProducerId] = {}
        self._transaction: Transaction | None = None
        self._waiting: dict[PartitionReplicator, None] = {}  # are offered to the producer again
        self._held = HeldPartitions(cluster, spawn, partitions=partitions, released=self._released)
        self._needs_epoch = False
        self._commit_now = False
        self._is_confirmed = True  # the markers of the last transaction are written
        self._aborts = 0  # in a row
        self._failure: ClusterError | None = None
        self._changed = asyncio.Event()
        self._ended = asyncio.Condition()
        self._sending: Producer
        committer.on_due = self._changed.set
        committer.commit_now = self.commit_now

    def connect(self, sender: Producer) -> None:
        """``sender`` sends the batches."""
        self._sending = sender

    # -- SendGate

    def admits(self, partition: PartitionReplicator) -> bool:
        """Return whether the next batch may be sent now. If not, the partition is offered to the producer again."""
        transaction = self._transaction
        if self._committer.has_unrecorded_loss(partition) and not self._is_in_transaction(partition):
            self._held.hold_while(partition, self._committer.has_unrecorded_loss)
        if transaction is not None and not self._held.holds(partition):
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
        if transaction is None or partition not in transaction.joined:
            current = ProducerId(*self._producer, transactional=True)
            if self._used.get(partition.target) != current:
                self._used[partition.target] = current
                partition.set_producer_id(current)
                return
            self._needs_epoch = True
        self._changed.set()

    def disable_idempotence(self, reason: str) -> None:
        """The target rejects the producer for good: the source task ends, and never writes outside transactions."""
        self._failure = ClusterError(f"the target does not allow transactions: {reason}")
        self._changed.set()

    # -- transactions

    async def commit_now(self) -> None:
        """Commit what is open, or what waits for a transaction, at once; return when that transaction has ended.

        Everything committed before can then be read: its markers are written.
        """
        if self._transaction is None and self._is_confirmed and not self._committer.is_due:
            return
        self._commit_now = True
        self._changed.set()
        async with self._ended:
            await self._ended.wait()

    async def run(self) -> None:
        """Run one transaction after the other, until cancelled. Raises ClusterErrors, also Fenced."""
        while True:
            await self._wait_for_work()
            if self._needs_epoch:
                await self._new_epoch()
            if self._committer.is_due or self._may_offer():
                await self._run_one()
            elif not self._is_confirmed:
                await self._confirm()
            async with self._ended:
                self._ended.notify_all()

    async def _wait_for_work(self) -> None:
        while not (self._needs_epoch or self._committer.is_due or self._may_offer()):
            if self._commit_now and not self._is_confirmed:
                return
            self._commit_now = False
            self._changed.clear()
            try:
                async with asyncio.timeout(RENEW_EVERY_S):
                    await self._changed.wait()
            except TimeoutError:
                self._needs_epoch = True
            self._check_failure()

    def _may_offer(self) -> bool:
        return any(not self._held.holds(partition) for partition in self._waiting)

    async def _run_one(self) -> None:
        transaction = self._transaction = Transaction(self._lease)
        waiting, self._waiting = self._waiting, {}
        for partition in waiting:
            if partition in self._partitions and not self._held.holds(partition):
                transaction.wanted[partition] = None
        try:
            if not await self._fill(transaction):
                return
            await self._settle(transaction)
            await self._write_offsets(transaction)
        except Aborted as aborted:
            await self._abort(transaction, aborted)
        else:
            await self._commit(transaction)
        finally:
            self._transaction = None
            self._commit_now = False

    async def _commit(self, transaction: Transaction) -> None:
        self._is_confirmed = False
        await self._retried(partial(self._coordinator.commit, self._producer), abortable=False)
        if self._commit_now:
            await self._confirm()
        self._backoff.reset()
        self._aborts = 0
        self._held.committed(transaction.joined)
        self._committer.committed(time.monotonic(), time.time())

    async def _confirm(self) -> None:
        """Wait until the markers of the last transaction are written: until then, a repeated commit is refused.

        Another source task may read the committed offsets from then on.
        """
        await self._retried(partial(self._coordinator.commit, self._producer), abortable=False)
        self._is_confirmed = True

    async def _fill(self, transaction: Transaction) -> bool:
        """Add partitions and let them send until the transaction is due; return False if there is nothing to commit."""
        while True:
            self._changed.clear()
            self._check_failure()
            due_in = transaction.due_in(time.monotonic())
            if due_in == 0 or transaction.lost is not None or (due_in is not None and self._commit_now):
                break
            if transaction.wanted:
                await self._join(transaction)
                continue
            if due_in is None:  # nothing was added at the coordinator
                break
            try:
                async with asyncio.timeout(due_in):
                    await self._changed.wait()
            except TimeoutError:
                break
        self._waiting.update(transaction.wanted)
        return bool(transaction.joined) or self._committer.is_due

    async def _join(self, transaction: Transaction) -> None:
        partitions = list(transaction.wanted)
        places = {one.target for one in partitions} | self._committer.places(partitions)
        refused = await self._add(transaction, places)
        for partition in partitions:
            if (code := refused.get(partition.target)) is not None:
                transaction.wanted.pop(partition, None)
                partition.leader_unavailable(from_response(code), time.monotonic())
        if not refused.keys() & places:
            transaction.joins(partitions, places, time.monotonic())
            for partition in partitions:
                self._waiting.pop(partition, None)
            self._offer(partitions)

    async def _add(self, transaction: Transaction, places: set[TopicPartition]) -> dict[TopicPartition, int]:
        """Add partitions to the transaction; return those that were refused, and then none was added.

        Raises BrokerError if those of the offsets topic are refused.
        """
        missing = places - transaction.added
        refused = await self._retried(partial(self._try_add, missing)) if missing else {}
        self._committer.refused(refused)
        return refused

    async def _try_add(self, places: set[TopicPartition]) -> dict[TopicPartition, int]:
        codes = await self._coordinator.try_add(self._producer, places)
        refused = {place: code for place, code in codes.items() if code in _REFUSED}
        for place, code in codes.items():
            if place not in refused:
                self._coordinator.check(code, f"add {place} to a transaction of {self.transactional_id}")
        return refused

    async def _settle(self, transaction: Transaction) -> None:
        """Wait until it is known of every batch that was sent whether the target has it. Raises Aborted."""
        transaction.close()
        self._offer([partition for partition in transaction.joined if partition.repeats_next])
        counts_from = time.monotonic()
        last_moment = counts_from + self._grace_s
        while True:
            self._changed.clear()
            self._check_failure()
            if (lost := transaction.lost) is not None:
                raise Aborted(f"the target has lost its state of the producer in {lost.target}")
            uncertain = transaction.uncertain
            if not uncertain:
                return
            now = time.monotonic()
            if throttled := self._sending.throttled:
                counts_from = max(counts_from, now + throttled)
            until = {one: self._patient_until(one, counts_from, now) for one in uncertain}
            late = list(until) if now >= last_moment else [one for one, moment in until.items() if now >= moment]
            if late:
                names = ", ".join(sorted(str(one.target) for one in late)[:3])
                raise Aborted(f"the target has not acknowledged the records of {names} in time", late)
            try:
                async with asyncio.timeout(min(*until.values(), last_moment) - now):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _patient_until(self, partition: PartitionReplicator, counts_from: float, now: float) -> float:
        """Return until when to wait for the partition: its patience after the last acknowledgement."""
        if partition.batches_in_flight:
            counts_from = max(counts_from, now - partition.unanswered_for(now))
        return counts_from + max(self._held.patience(partition), min(self._lease.interval_ms / 1000, self._grace_s))

    async def _write_offsets(self, transaction: Transaction) -> None:
        await self._committer.losses_recorded()
        for partition in transaction.joined:
            if partition.has_uncommitted and self._committer.is_held_back(partition):
                raise Aborted(f"a loss of {partition.source} is not recorded yet")
        records = self._committer.prepare(transaction.joined)
        while await self._add(transaction, set(records)):
            records = self._committer.prepare(transaction.joined)  # without what was refused
        try:
            await self._writer.write(self._producer, records, deadline=time.monotonic() + self._grace_s)
        except NotWritten as failed:
            if isinstance(failed.error, Fenced | ClusterClosed):
                raise failed.error from failed
            self._committer.write_failed(failed.partition, failed.error)
            raise Aborted(f"cannot write to {failed.partition}: {failed.error}") from failed

    async def _abort(self, transaction: Transaction, aborted: Aborted) -> None:
        log.warning("transaction of %s aborted: %s", self.transactional_id, aborted)
        self._aborts += 1
        if self._aborts >= REPORTED_ABORTS:
            self.error = f"transactions of {self.transactional_id} are aborted again and again: {aborted}"
        transaction.close()
        for partition in transaction.joined:
            partition.await_roll_back()
        if aborted.late:
            self._sending.hang_up()
        await self._await_answers(transaction)
        await self._retried(partial(self._coordinator.abort, self._producer), abortable=False)
        moved_back = [partition for partition in transaction.joined if partition.has_uncommitted]
        for partition in transaction.joined:
            partition.roll_back()
        self._committer.aborted(moved_back)
        await self._new_epoch()
        for partition in aborted.late:
            self._held.hold(partition, str(aborted))
        if not aborted.late:
            await asyncio.sleep(self._backoff.next())

    async def _await_answers(self, transaction: Transaction) -> None:
        hang_up_at = time.monotonic() + ANSWERS_S
        while any(partition.batches_in_flight for partition in transaction.joined):
            self._changed.clear()
            try:
                async with asyncio.timeout(ANSWERS_S):
                    await self._changed.wait()
            except TimeoutError:
                pass
            if time.monotonic() >= hang_up_at:
                self._sending.hang_up()

    async def _new_epoch(self) -> None:
        """Continue the producer with the next epoch. Nothing may be in flight."""
        self._producer = await self._retried(partial(self._coordinator.init, self._producer), abortable=False)
        self._needs_epoch = False
        self._is_confirmed = True  # the coordinator answers only when the last transaction has ended
        self._writer.new_epoch()
        current = ProducerId(*self._producer, transactional=True)
        self._used = {partition.target: current for partition in self._partitions}
        for partition in self._partitions:
            partition.set_producer_id(current)

    # -- inside

    def _released(self, partition: PartitionReplicator) -> None:
        """A partition may join transactions again."""
        self._sending.update(partition)

    def _is_in_transaction(self, partition: PartitionReplicator) -> bool:
        return self._transaction is not None and partition in self._transaction.joined

    def _offer(self, partitions: Collection[PartitionReplicator]) -> None:
        for partition in partitions:
            self._sending.update(partition)

    def _check_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _retried(self, attempt: Callable[[], Awaitable[T]], *, abortable: bool = True) -> T:
        """Repeat an attempt until it succeeds. Raises Aborted, Fenced, and other ClusterErrors that are final."""
        concurrent, others = Backoff(_CONCURRENT_MS, _CONCURRENT_MAX_MS), Backoff.for_retries(self._cluster.settings)
        report_at = time.monotonic() + UNANSWERED_REPORT_S
        while True:
            self._check_failure()
            try:
                result = await attempt()
            except (Fenced, ClusterClosed):
                raise
            except ClusterError as error:
                code = error.code if isinstance(error, BrokerError) else None
                if abortable and code in _ABORTED:
                    raise Aborted(str(error)) from error
                if not error.retriable:
                    raise
                if time.monotonic() > report_at:
                    self.error = f"cannot commit transactions of {self.transactional_id}: {error}"
                pause = (concurrent if code == ErrorCode.CONCURRENT_TRANSACTIONS else others).next()
                await asyncio.sleep(pause)
            else:
                if self._aborts < REPORTED_ABORTS:
                    self.error = None
                return result
