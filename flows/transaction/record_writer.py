"""Writes source offsets and exact offsets in the transaction of the records that they belong to."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence

from mm2.core.naming.names import TopicPartition
from mm2.kafka.backoff import Backoff
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterError, RequestTimedOut
from mm2.kafka.logs.transaction_coordinator import TransactionCoordinator
from mm2.kafka.logs.transactional_writer import RecordBatch, next_sequence, record_batches
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.produce_request import ProduceRequest
from mm2.kafka.protocol.transaction_requests import ProducerIdAndEpoch

PURPOSE = "transactions"
"""Not the connection of the records: its requests would wait for theirs."""

Records = Sequence[tuple[bytes, bytes | None]]

_ACKS_ALL = -1
_ANSWER_MS = 10_000  # per response; then the same batch is sent again


class NotWritten(Exception):
    """``error`` is why records could not be written to ``partition``: the transaction has to be aborted."""

    def __init__(self, partition: TopicPartition, error: ClusterError) -> None:
        super().__init__(f"cannot write to {partition}: {error}")
        self.partition = partition
        self.error = error


class RecordWriter:
    """Writes records as the source task's producer, with sequences of its own for these partitions.

    They must have been added to the transaction. Each batch is repeated with the same sequence until it is
    acknowledged, so it is stored once.
    """

    def __init__(self, cluster: Cluster, coordinator: TransactionCoordinator, transactional_id: str) -> None:
        self._cluster = cluster
        self._coordinator = coordinator
        self._id = transactional_id
        self._sequences: dict[TopicPartition, int] = {}

    def new_epoch(self) -> None:
        """The producer has a new epoch: its sequences start again."""
        self._sequences.clear()

    async def write(
        self, producer: ProducerIdAndEpoch, records: Mapping[TopicPartition, Records], *, deadline: float
    ) -> None:
        """Write these records (key, value); return when all are stored, retrying until ``deadline`` (monotonic).

        Raises NotWritten: it is then unknown which are stored.
        """
        waiting = {
            partition: deque(record_batches(some, producer, self._sequences.get(partition, 0)))
            for partition, some in records.items()
            if some
        }
        backoff = Backoff.for_retries(self._cluster.settings)
        while waiting:
            failed = await self._round({partition: batches[0] for partition, batches in waiting.items()})
            for partition in waiting.keys() - failed.keys():
                batch = waiting[partition].popleft()
                self._sequences[partition] = next_sequence(self._sequences.get(partition, 0), batch.records)
                if not waiting[partition]:
                    del waiting[partition]
            if failed:
                final = (one for one, error in failed.items() if not error.retriable)
                partition = next(final, next(iter(failed)))
                pause = backoff.next()
                if not failed[partition].retriable or time.monotonic() + pause > deadline:
                    raise NotWritten(partition, failed[partition])
                await asyncio.sleep(pause)

    async def _round(self, batches: Mapping[TopicPartition, RecordBatch]) -> dict[TopicPartition, ClusterError]:
        """Send one batch of each partition, in one request to each leader; return the errors."""
        by_leader, unknown = await self._cluster.by_leader(list(batches))
        failed: dict[TopicPartition, ClusterError] = dict(unknown)
        answers = await asyncio.gather(
            *(self._send(node_id, {one: batches[one] for one in led}) for node_id, led in by_leader.items())
        )
        for errors in answers:
            failed |= errors
        for partition in failed:
            self._cluster.forget(partition)
        return failed

    async def _send(
        self, node_id: int, batches: Mapping[TopicPartition, RecordBatch]
    ) -> dict[TopicPartition, ClusterError]:
        request = ProduceRequest(
            acks=_ACKS_ALL,
            timeout_ms=_ANSWER_MS,
            batches={partition: [batch.raw] for partition, batch in batches.items()},
            transactional_id=self._id,
        )
        try:
            answer = await self._cluster.send(node_id, request, purpose=PURPOSE, timeout_ms=2 * _ANSWER_MS)
        except ClusterError as error:
            return dict.fromkeys(batches, error)
        missing = RequestTimedOut("the response of a broker lacks a partition")
        failed: dict[TopicPartition, ClusterError] = dict.fromkeys(batches, missing)
        for result in answer.partitions:
            partition = TopicPartition(result.topic, result.partition)
            refused = result.broker_error(self._cluster.settings.alias)
            if refused is None or refused.code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                failed.pop(partition, None)
            else:
                try:
                    self._coordinator.check(refused.code, refused.what, refused.words, partition.topic)
                except ClusterError as error:
                    failed[partition] = error
        return failed
