"""Writes records in an open transaction: source and exact offsets of a source task, and records of the leader."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from mm2.core.naming.names import TopicPartition
from mm2.kafka.backoff import Backoff
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterError, RequestTimedOut
from mm2.kafka.logs.transaction_coordinator import TransactionCoordinator
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.produce_request import ProduceRequest
from mm2.kafka.protocol.transaction_requests import ProducerIdAndEpoch

Records = Sequence[tuple[bytes, bytes | None]]

_Answers = tuple[dict[TopicPartition, int], dict[TopicPartition, ClusterError]]
"""The first offsets of stored batches, and errors."""

_ACKS_ALL = -1
_ANSWER_MS = 10_000  # per response; then the same batch is sent again
_BATCH_BYTES = 512 * 1024  # below any sensible max.message.bytes (Kafka's default is 1 MiB)
_HIGHEST_SEQUENCE = 2**31 - 1


class RecordBatch(NamedTuple):
    """An encoded batch of ``records`` records."""

    raw: bytes
    records: int


class NotWritten(Exception):
    """``error`` is why records could not be written to ``partition``: the transaction has to be aborted."""

    def __init__(self, partition: TopicPartition, error: ClusterError) -> None:
        super().__init__(f"cannot write to {partition}: {error}")
        self.partition = partition
        self.error = error


class RecordWriter:
    """Writes records as a transactional producer, with sequences of its own for these partitions.

    They must have been added to the transaction. Each batch is repeated with the same sequence until it is
    acknowledged, so it is stored once. ``purpose``: the connection, `Cluster.send`; ``first_pause_ms``: before the
    first repetition, by default that of the client.
    """

    def __init__(
        self,
        cluster: Cluster,
        coordinator: TransactionCoordinator,
        transactional_id: str,
        *,
        purpose: str,
        first_pause_ms: int | None = None,
    ) -> None:
        settings = cluster.settings
        self._cluster = cluster
        self._coordinator = coordinator
        self._id = transactional_id
        self._purpose = purpose
        self._pauses = settings if first_pause_ms is None else replace(settings, retry_backoff_ms=first_pause_ms)
        self._answer_ms = min(settings.request_timeout_ms, _ANSWER_MS)
        self._sequences: dict[TopicPartition, int] = {}

    def new_epoch(self) -> None:
        """The producer has a new epoch: its sequences start again."""
        self._sequences.clear()

    async def write(
        self, producer: ProducerIdAndEpoch, records: Mapping[TopicPartition, Records], *, deadline: float
    ) -> dict[TopicPartition, int]:
        """Write these records (key, value), timestamped now, retrying until ``deadline`` (monotonic seconds).

        Return when all are stored, with the last offset of each partition. Raises NotWritten: it is then unknown which
        are stored.
        """
        last: dict[TopicPartition, int] = {}
        waiting = {
            partition: deque(record_batches(some, producer, self._sequences.get(partition, 0)))
            for partition, some in records.items()
            if some
        }
        backoff = Backoff.for_retries(self._pauses)
        while waiting:
            stored, failed = await self._round({partition: batches[0] for partition, batches in waiting.items()})
            for partition, base_offset in stored.items():
                batch = waiting[partition].popleft()
                last[partition] = base_offset + batch.records - 1
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
        return last

    async def _round(self, batches: Mapping[TopicPartition, RecordBatch]) -> _Answers:
        """Send one batch of each partition, in one request to each leader; return the first offsets, and the errors."""
        by_leader, unknown = await self._cluster.by_leader(list(batches))
        stored: dict[TopicPartition, int] = {}
        failed: dict[TopicPartition, ClusterError] = dict(unknown)
        answers = await asyncio.gather(
            *(self._send(node_id, {one: batches[one] for one in led}) for node_id, led in by_leader.items())
        )
        for offsets, errors in answers:
            stored |= offsets
            failed |= errors
        for partition in failed:
            self._cluster.forget(partition)
        return stored, failed

    async def _send(self, node_id: int, batches: Mapping[TopicPartition, RecordBatch]) -> _Answers:
        request = ProduceRequest(
            acks=_ACKS_ALL,
            timeout_ms=self._answer_ms,
            batches={partition: [batch.raw] for partition, batch in batches.items()},
            transactional_id=self._id,
        )
        try:
            # twice the time, so that the broker can report its own timeout
            answer = await self._cluster.send(node_id, request, purpose=self._purpose, timeout_ms=2 * self._answer_ms)
        except ClusterError as error:
            return {}, dict.fromkeys(batches, error)
        stored: dict[TopicPartition, int] = {}
        missing = RequestTimedOut("the response of a broker lacks a partition")
        failed: dict[TopicPartition, ClusterError] = dict.fromkeys(batches, missing)
        for result in answer.partitions:
            partition = TopicPartition(result.topic, result.partition)
            if partition not in batches:
                continue
            refused = result.broker_error(self._cluster.settings.alias)
            if refused is None or refused.code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                failed.pop(partition, None)
                stored[partition] = int(result.base_offset)
            else:
                try:
                    self._coordinator.check(refused.code, refused.what, refused.words, partition.topic)
                except ClusterError as error:
                    failed[partition] = error
        return stored, failed


def next_sequence(sequence: int, records: int) -> int:
    """Return the sequence after ``records`` more records; it wraps to 0 after the highest."""
    return (sequence + records) & _HIGHEST_SEQUENCE


def record_batches(
    records: Sequence[tuple[bytes, bytes | None]], producer: ProducerIdAndEpoch, sequence: int
) -> list[RecordBatch]:
    """Return transactional batches of these records (key, value), timestamped now, from ``sequence`` on."""
    now_ms = int(time.time() * 1000)
    batches: list[RecordBatch] = []
    taken = 0
    while taken < len(records):
        builder = DefaultRecordBatchBuilder(2, 0, 1, *producer, next_sequence(sequence, taken), _BATCH_BYTES)
        inside = 0
        for key, value in records[taken:]:
            if builder.append(inside, now_ms, key, value, []) is None:
                break
            inside += 1
        batches.append(RecordBatch(bytes(builder.build()), inside))
        taken += inside
    return batches
