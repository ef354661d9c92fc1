"""Letters refer to the invariants of `ProducerQueue`."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from mm2.kafka.backoff import Backoff
from mm2.kafka.errors import BrokerError, ClusterError, NotSupported, Unreachable
from mm2.kafka.logs.control_producer import PendingRecord, ProducerQueue
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.transaction_requests import NO_PRODUCER, ProducerIdAndEpoch

FIRST, SECOND = ProducerIdAndEpoch(7, 0), ProducerIdAndEpoch(8, 0)


@pytest.fixture
async def queue() -> ProducerQueue:
    queue = ProducerQueue(Backoff(1, 1))
    queue.use(FIRST)
    return queue


def add(queue: ProducerQueue, *keys: bytes, size: int = 1) -> None:
    loop = asyncio.get_running_loop()
    queue.records.extend(
        PendingRecord(key=key, value=bytes(size), timestamp_ms=1, stored=loop.create_future()) for key in keys
    )


def written(queue: ProducerQueue) -> tuple[int, int, list[bytes | None]]:
    """Return the producer ID, the first sequence and the keys of the batch to write now."""
    batch = DefaultRecordBatch(queue.batch())
    return batch.producer_id, batch.base_sequence, [record.key for record in batch]


async def test_batches_are_numbered(queue: ProducerQueue) -> None:
    add(queue, b"a", b"b")
    assert written(queue) == (7, 0, [b"a", b"b"])
    assert [record.key for record in queue.take_batch()] == [b"a", b"b"]
    add(queue, b"c")
    assert written(queue) == (7, 2, [b"c"])


async def test_a_batch_has_as_many_records_as_fit(queue: ProducerQueue) -> None:
    add(queue, b"a", b"b", b"c", size=200_000)
    assert written(queue) == (7, 0, [b"a", b"b"])
    queue.take_batch()
    assert written(queue) == (7, 2, [b"c"])


async def test_a_repeated_batch_is_the_same_although_more_records_have_arrived(queue: ProducerQueue) -> None:
    add(queue, b"a")
    first = queue.batch()
    add(queue, b"b")
    assert queue.batch() == first
    queue.take_batch()
    assert written(queue) == (7, 1, [b"b"])


async def test_b_records_that_were_given_up_leave_no_gap_in_the_sequences(queue: ProducerQueue) -> None:
    add(queue, b"a")
    queue.batch()
    add(queue, b"b")
    assert [record.key for record in queue.give_up(everything=False)] == [b"a"]
    assert queue.producer is None
    queue.use(SECOND)
    assert written(queue) == (8, 0, [b"b"])


async def test_without_a_batch_all_records_are_given_up(queue: ProducerQueue) -> None:
    add(queue, b"a", b"b")
    assert len(queue.give_up(everything=False)) == 2
    add(queue, b"a", b"b", size=400_000)
    queue.batch()
    assert len(queue.give_up(everything=True)) == 2


async def test_records_are_written_again_with_another_producer_id(queue: ProducerQueue) -> None:
    add(queue, b"a")
    queue.batch()
    queue.take_batch()
    add(queue, b"b")
    assert written(queue) == (7, 1, [b"b"])
    queue.abandon_producer()
    queue.use(SECOND)
    assert written(queue) == (8, 0, [b"b"])


async def test_batches_without_idempotence_have_no_sequence(queue: ProducerQueue) -> None:
    queue.use(NO_PRODUCER)
    add(queue, b"a")
    assert written(queue) == (-1, -1, [b"a"])
    queue.take_batch()
    add(queue, b"b")
    assert written(queue) == (-1, -1, [b"b"])


async def test_sequences_wrap(queue: ProducerQueue) -> None:
    queue._sequence = 0x7FFFFFFF
    add(queue, b"a")
    assert written(queue)[1] == 0x7FFFFFFF
    queue.take_batch()
    add(queue, b"b")
    assert written(queue)[1] == 0


class Twice:
    """Permits two failures in a row."""

    def __init__(self) -> None:
        self.failures = 0

    def is_exceeded(self, error: ClusterError, now: float) -> bool:
        self.failures += 1
        return self.failures > 2

    def reset(self) -> None:
        self.failures = 0


async def test_retriable_errors_are_retried_up_to_the_limit() -> None:
    queue = ProducerQueue(Backoff(1, 1), limit=Twice())
    down, denied = Unreachable("down"), BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "write to t-0")
    assert [queue.failed(down, 0.0) for _ in range(3)] == [True, True, False]
    assert queue.last_error is down
    queue.succeeded()
    assert queue.last_error is None
    assert queue.failed(down, 0.0)
    assert not queue.failed(denied, 0.0)
    assert queue.last_error is denied


async def test_without_a_limit_retries_never_end(queue: ProducerQueue) -> None:
    assert all(queue.failed(Unreachable("down"), now) for now in (0.0, 1e3, 1e6))
    assert not queue.failed(NotSupported("too old"), 0.0)
