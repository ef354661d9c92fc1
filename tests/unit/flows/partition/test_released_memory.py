"""A partition that releases its bytes, and fetches and packs the batches again."""

from __future__ import annotations

from flows.batch.choice import BatchRules
from flows.batch.header import HEADER_BYTES
from flows.batch.target_batch import ProducerId
from flows.partition.timeouts import CORRUPT_ATTEMPTS, TIMEOUTS
from flows.source.completed_fetch import BATCH_OVERHEAD
from flows.target.produce_errors import from_exception, from_response
from mm2.core.settings.client import OffsetReset
from mm2.kafka.errors import ConnectionLost, Unreachable
from mm2.kafka.protocol.error_codes import ErrorCode
from tests.lab.batches import LOG_APPEND_TIME, Batch, Record, sealed
from tests.unit.flows.replicators import (
    WALL,
    arrive,
    data,
    is_failed,
    message,
    partition,
    send,
)


def test_a_stuck_partition_releases_its_bytes_and_retries() -> None:
    replicator, listener = partition()
    now = 0.0
    arrive(replicator, data(0), data(1))
    while replicator.held_bytes:
        (entry,) = send(replicator, now)
        replicator.produce_failed(entry, from_response(ErrorCode.NOT_ENOUGH_REPLICAS), now)
        now += listener.pauses[-1] + 0.01
        replicator.wake(now)
    assert 1 < now < 4
    assert replicator.is_retrying
    assert not is_failed(replicator)
    while replicator.fetch_offset is None:
        now += 0.1
        replicator.wake(now)
    assert replicator.fetch_offset == 0


def test_batches_the_target_may_have_are_released_and_packed_as_before() -> None:
    replicator, _ = partition(rules=BatchRules())
    arrive(replicator, data(0))
    replicator.acknowledged(send(replicator)[0], 0, 0.0, WALL)
    tiny = [data(offset) for offset in range(1, 7)]
    arrive(replicator, *tiny[:3])  # merged
    arrive(replicator, *tiny[3:])
    now = 0.0
    while replicator.held_bytes:
        for entry in send(replicator, now):
            replicator.produce_failed(entry, from_exception(ConnectionLost("gone")), now)
        now += 0.1
    assert message(replicator) == "cannot copy orders-3 offsets 1-6 to A.orders-3: gone"
    while replicator.fetch_offset is None:
        now += 0.1
        replicator.wake(now)
    arrive(replicator, *tiny[:2])
    assert not replicator.can_send(now + 5), "it was one batch of six"
    arrive(replicator, *tiny[2:], data(7))
    (entry,) = send(replicator, now + 5)
    assert (entry.batch.sequence, entry.batch.runs) == (1, ((1, 6),))


def test_batches_the_target_may_have_are_packed_as_before_even_after_a_corrupt_fetch() -> None:
    replicator, _ = partition()
    arrive(replicator, data(0, 2))
    now = 0.0
    while replicator.held_bytes:
        for entry in send(replicator, now):
            replicator.produce_failed(entry, from_exception(ConnectionLost("gone")), now)
        now += 0.1
    while replicator.fetch_offset is None:
        now += 0.1
        replicator.wake(now)
    broken = bytearray(Batch(records=[Record(0, 0, b"k", b"v")], attributes=LOG_APPEND_TIME).encode())
    broken[HEADER_BYTES] = 0x55
    fields = [0, len(broken) - 12, -1, 2, 0, LOG_APPEND_TIME, 1, 0, 0, -1, -1, -1, 2]
    arrive(replicator, sealed(broken, fields), now=now)
    now += 10
    assert replicator.next_batch(now) is None
    assert is_failed(replicator)
    replicator.wake(now + TIMEOUTS.failed_retry_s)
    arrive(replicator, data(0))
    assert not replicator.can_send(now + TIMEOUTS.failed_retry_s), "it was one batch of two"


def test_responses_still_count_after_memory_is_released() -> None:
    replicator, listener = partition()
    arrive(replicator, data(0), data(1))
    (entry,) = send(replicator)
    replicator.release_memory(0.0)
    assert (replicator.held_bytes, replicator.is_idle, replicator.fetch_offset) == (0, False, None)
    replicator.acknowledged(entry, 0, 0.0, WALL)
    assert (replicator.position, replicator.fetch_offset, replicator.is_idle) == (1, 1, True)
    assert listener.released == len(data(0) + data(1)) + 2 * BATCH_OVERHEAD


def test_a_batch_released_in_flight_that_fails_is_fetched_again() -> None:
    replicator, _ = partition()
    arrive(replicator, data(0), data(1))
    (entry,) = send(replicator)
    replicator.release_memory(0.0)
    replicator.produce_failed(entry, from_exception(ConnectionLost("gone")), 0.0)
    assert (replicator.is_idle, replicator.fetch_offset) == (True, 0)
    arrive(replicator, data(0))
    (entry,) = send(replicator, 1.0)
    assert entry.batch.sequence == 0


def test_a_batch_released_in_flight_that_is_too_large_is_split_when_it_is_fetched_again() -> None:
    replicator, _ = partition()
    arrive(replicator, data(0, 10, 100))
    (entry,) = send(replicator)
    replicator.release_memory(0.0)
    replicator.produce_failed(entry, from_response(ErrorCode.MESSAGE_TOO_LARGE), 0.0)
    replicator.size_limit_read(None, 0.0)
    arrive(replicator, data(0, 10, 100))
    (entry,) = send(replicator)
    assert 0 < entry.batch.count < 10


def test_a_new_leader_ends_the_pause() -> None:
    replicator, listener = partition()
    now = 0.0
    arrive(replicator, data(0), data(1))
    while replicator.held_bytes:
        (entry,) = send(replicator, now)
        replicator.produce_failed(entry, from_exception(Unreachable("connection refused")), now)
        if replicator.held_bytes:
            now += listener.pauses[-1] + 0.01
    assert replicator.fetch_offset is None
    replicator.leader_changed(0.0)
    assert replicator.fetch_offset == 0
    arrive(replicator, data(0))
    assert replicator.can_send(now)


def test_a_new_leader_changes_nothing_for_a_partition_that_does_not_wait_for_one() -> None:
    replicator, _ = partition()
    replicator.fetch_delayed("the source is down", 0.0)
    replicator.leader_changed(0.0)
    assert replicator.fetch_offset is None


def test_another_producer_id_follows_a_batch_that_the_source_does_not_have_any_more() -> None:
    """The target may have record 0 with sequence 0, and would take record 1 for it."""
    replicator, listener = partition()
    arrive(replicator, data(0), end=1)
    (entry,) = send(replicator)
    replicator.release_memory(0.0)
    replicator.produce_failed(entry, from_exception(ConnectionLost("lost")), 0.0)
    replicator.reset_offset(OffsetReset.EARLIEST, 1, 2, 1.0)
    arrive(replicator, data(1), end=2, now=1.0)
    assert replicator.next_batch(1.0) is None
    assert replicator.needs_producer_id
    assert listener.sends, "told that there is something to send, so that it gets the producer id"
    replicator.set_producer_id(ProducerId(8, 0))
    (entry,) = send(replicator, 1.0)
    assert (entry.batch.first_offset, entry.batch.sequence) == (1, 0)


def test_a_producer_id_is_needed_only_when_nothing_is_in_flight() -> None:
    """Batches in flight have the former one, and `set_producer_id` must not be called before they are answered."""
    replicator, _ = partition()
    arrive(replicator, data(0), end=3)
    (entry,) = send(replicator)
    replicator.acknowledged(entry, 0, 0.0, WALL)
    arrive(replicator, data(1), data(2), end=3)
    entries = send(replicator)
    replicator.release_memory(0.0)
    for entry in entries:
        replicator.produce_failed(entry, from_exception(ConnectionLost("lost")), 0.0)
    arrive(replicator, data(1), end=3, now=1.0)
    (entry,) = send(replicator, 1.0)
    damaged = bytearray(data(2))
    damaged[-1] ^= 1
    for _ in range(CORRUPT_ATTEMPTS):
        arrive(replicator, bytes(damaged), end=3, now=1.0)
        replicator.wake(100.0)
    assert not replicator.needs_producer_id
    replicator.acknowledged(entry, 1, 1.0, WALL)
    assert replicator.needs_producer_id


def test_a_response_without_records_can_complete_a_repeated_batch() -> None:
    replicator, listener = partition()
    empty = Batch(records=[], base_offset=1, next_offset=5).encode()
    arrive(replicator, data(0), empty, end=5)
    (entry,) = send(replicator)
    replicator.release_memory(0.0)
    replicator.produce_failed(entry, from_exception(ConnectionLost("lost")), 0.0)
    arrive(replicator, data(0), end=5, now=1.0)
    assert not replicator.can_send(1.0), "the batch ended at 5"
    listener.sends = 0
    arrive(replicator, empty, end=5, now=1.0)
    assert (replicator.can_send(1.0), listener.sends) == (True, 1)


def test_a_full_partition_fetches_again_if_there_was_nothing_to_copy() -> None:
    replicator, _ = partition(3, max_held_bytes=1)
    records = [Record(number, 0, b"k", b"v") for number in range(3)]
    arrive(replicator, Batch(records=records, next_offset=10).encode())
    assert not replicator.is_fetched
    assert replicator.next_batch(0.0) is None
    assert (replicator.held_bytes, replicator.fetch_offset) == (0, 10)


def test_a_full_partition_fetches_what_a_repeated_batch_needs() -> None:
    replicator, _ = partition(rules=BatchRules(tiny_bytes=200), max_held_bytes=2_500)
    arrive(replicator, data(0))
    (entry,) = send(replicator)
    replicator.acknowledged(entry, 0, 0.0, WALL)
    arrive(replicator, data(1))
    sent = send(replicator)
    arrive(replicator, data(2), data(3))
    sent += send(replicator)
    replicator.release_memory(0.0)
    for entry in sent:
        replicator.produce_failed(entry, from_exception(ConnectionLost("lost")), 0.0)
    arrive(replicator, data(1), data(2, value_bytes=1_500), now=1.0)
    assert not replicator.is_fetched
    (entry,) = send(replicator, 1.0)
    replicator.acknowledged(entry, 1, 1.0, WALL)
    assert (replicator.can_send(1.0), replicator.fetch_offset) == (False, 3), "the next batch ended at 4"
