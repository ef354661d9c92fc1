"""Aborts the transactions of one source task."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection

from flows.commit.transaction_committer import TransactionCommitter
from flows.partition.replicator import PartitionReplicator
from flows.target.producer import Producer
from flows.transaction.ack_deadline import AckDeadline
from flows.transaction.excluded_partitions import ExcludedPartitions
from flows.transaction.missing_markers import MissingMarkers
from flows.transaction.transaction import Transaction
from flows.transaction.transactional_producer import CannotCommit, TransactionalProducer
from mm2.kafka.backoff import Backoff

log = logging.getLogger("mm2.transactions")

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
        return f"transactions of {self._producer.transactional_id} are aborted again and again: {self._reason}"

    def committed(self) -> None:
        """A transaction was committed."""
        self._in_a_row = 0
        self._backoff.reset()

    async def abort(self, transaction: Transaction, reason: CannotCommit, sending: Producer) -> None:
        """Abort the open transaction, continue with the next epoch, and pause."""
        log.warning("transaction of %s aborted: %s", self._producer.transactional_id, reason)
        self._in_a_row, self._reason = self._in_a_row + 1, str(reason)
        transaction.close()
        for partition in transaction.partitions:
            partition.await_roll_back(time.monotonic())
        if reason.late:
            sending.hang_up()
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
