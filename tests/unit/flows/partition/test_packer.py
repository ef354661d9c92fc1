"""Batches that cannot be rebuilt, and what a partition learns from batches that its target rejected."""

from __future__ import annotations

import pytest

from flows.batch.choice import BatchRules
from flows.batch.header import HEADER_BYTES
from flows.batch.target_batch import ProducerId, TargetBatch
from flows.partition.replicator import PartitionReplicator
from flows.partition.timeouts import TIMEOUTS
from flows.target.produce_errors import from_response
from mm2.kafka.decompression import Codec
from mm2.kafka.protocol.error_codes import ErrorCode
from tests.lab.batches import LOG_APPEND_TIME, Batch, Record
from tests.unit.flows.replicators import WALL, arrive, data, is_failed, message, partition, send


def bomb(*offsets: int, attributes: int = 0) -> bytes:
    """Return a batch whose records of zeros compress to almost nothing."""
    records = [Record(offset, 1_000, b"k", bytes(40_000_000 // len(offsets))) for offset in offsets]
    return Batch(records=records, codec=Codec.ZSTD, attributes=attributes).encode()


def test_a_bomb_that_must_be_rebuilt_fails_with_its_offset_and_sizes() -> None:
    replicator, listener = partition()
    stored = bomb(1, attributes=LOG_APPEND_TIME)
    held = arrive(replicator, data(0), stored, data(2))
    (first,) = send(replicator)
    replicator.acknowledged(first, 0, 0.0, WALL)
    assert replicator.next_batch(0.0) is None
    assert is_failed(replicator)
    assert message(replicator) == (
        "cannot copy orders-3 offset 1 to A.orders-3: batch at offset 1 is too large to rebuild: "
        f"{len(stored) - HEADER_BYTES} bytes (zstd) decompress to more than the limit of 16777216 bytes; raise "
        "max.partition.fetch.bytes of the flow's consumer"
    )
    assert (replicator.position, replicator.held_bytes, listener.released) == (1, 0, held)
    assert listener.pauses == [TIMEOUTS.failed_retry_s]


def test_a_bomb_that_the_target_rejects_as_too_large_fails() -> None:
    replicator, listener = partition()
    arrive(replicator, bomb(0, 1), data(2))
    for now in (0.0, TIMEOUTS.failed_retry_s):
        (entry,) = send(replicator, now)
        replicator.produce_failed(entry, from_response(ErrorCode.MESSAGE_TOO_LARGE), now)
        replicator.size_limit_read(None, now)
        assert replicator.next_batch(now) is None
        assert (message(replicator) or "").startswith(
            "cannot copy orders-3 offsets 0-1 to A.orders-3: MESSAGE_TOO_LARGE; raise max.message.bytes of A.orders on "
            "the target; batch at offset 0 is too large to rebuild: "
        )
        assert (is_failed(replicator), replicator.held_bytes, replicator.is_idle) == (True, 0, True)
        replicator.wake(now + TIMEOUTS.failed_retry_s)
        arrive(replicator, bomb(0, 1), data(2))
    assert listener.pauses == [TIMEOUTS.failed_retry_s, TIMEOUTS.failed_retry_s]


def test_a_rebuilt_batch_that_grew_is_held_with_its_new_size() -> None:
    replicator, listener = partition(rules=BatchRules(codec=Codec.NONE))
    held = arrive(replicator, Batch(records=[Record(0, 0, b"k", bytes(50_000))], codec=Codec.ZSTD).encode())
    assert held < 5_000
    (entry,) = send(replicator)
    assert 50_000 < entry.batch.size <= replicator.held_bytes
    assert listener.released == held - replicator.held_bytes
    replicator.acknowledged(entry, 0, 0.0, WALL)
    assert (replicator.held_bytes, listener.released) == (0, held)


def test_an_unexpected_error_while_packing_fails_the_partition_only() -> None:
    rules = BatchRules(codec=Codec.GZIP, level=99)  # zlib does not know this level
    replicator, listener = partition(rules=rules)
    arrive(replicator, data(0))
    assert replicator.next_batch(0.0) is None
    assert (message(replicator) or "").startswith("cannot copy orders-3 offset 0 to A.orders-3: unexpected error: ")
    assert (is_failed(replicator), replicator.held_bytes, replicator.fetch_offset) == (True, 0, None)
    assert listener.pauses == [TIMEOUTS.failed_retry_s]


def test_an_unexpected_error_while_splitting_fails_the_partition_only() -> None:
    replicator, listener = partition(rules=BatchRules(tiny_bytes=0, level=99))
    records = [Record(offset, 0, b"k", b"v") for offset in range(9)]
    arrive(replicator, Batch(records=records, codec=Codec.GZIP).encode())
    (entry,) = send(replicator)
    replicator.produce_failed(entry, from_response(ErrorCode.MESSAGE_TOO_LARGE), 0.0)
    replicator.size_limit_read(None, 0.0)
    assert replicator.next_batch(0.0) is None
    assert (message(replicator) or "").startswith("cannot copy orders-3 offsets 0-8 to A.orders-3: MESSAGE_TOO_LARGE; ")
    assert "; unexpected error: " in (message(replicator) or "")
    assert (is_failed(replicator), replicator.held_bytes, replicator.is_idle) == (True, 0, True)
    assert listener.pauses == [TIMEOUTS.failed_retry_s]


def test_the_size_limit_of_the_target_is_forgotten_after_a_while() -> None:
    replicator, _ = partition()
    arrive(replicator, data(0, 10, 100))
    (entry,) = send(replicator)
    replicator.produce_failed(entry, from_response(ErrorCode.MESSAGE_TOO_LARGE), 0.0)
    replicator.size_limit_read(None, 0.0)
    sizes: dict[float, list[int]] = {}
    for now in (0.0, TIMEOUTS.rejection_memory_s - 1, TIMEOUTS.rejection_memory_s):
        sizes[now] = []
        while not replicator.is_idle:
            entry = send(replicator, now)[0]
            sizes[now].append(entry.batch.count)
            replicator.acknowledged(entry, -1, now, WALL)
            replicator.set_producer_id(ProducerId(replicator.position, 0))  # keeps one in flight
        arrive(replicator, data(replicator.position, 10, 100))
    assert sizes == {0.0: [4, 4, 2], TIMEOUTS.rejection_memory_s - 1: [4, 4, 2], TIMEOUTS.rejection_memory_s: [10]}


def rejected(replicator: PartitionReplicator, now: float = 0.0) -> TargetBatch:
    """Send a batch that the target rejects as too large."""
    (entry,) = send(replicator, now)
    replicator.produce_failed(entry, from_response(ErrorCode.MESSAGE_TOO_LARGE), now)
    return entry.batch


def sizes_sent(replicator: PartitionReplicator) -> list[int]:
    """Return the sizes of all batches, sent one by one and acknowledged."""
    found = []
    while not replicator.is_idle:
        entry = send(replicator)[0]
        found.append(entry.batch.size)
        replicator.acknowledged(entry, -1, 0.0, WALL)
        replicator.set_producer_id(ProducerId(100 + replicator.position, 0))  # keeps one in flight
    return found


def test_batches_have_the_limit_that_was_read_from_the_target() -> None:
    replicator, listener = partition()
    arrive(replicator, data(0, 10, 100), data(10, 10, 100))
    batch = rejected(replicator)
    limit = batch.size - 1
    assert (listener.sizes_rejected, replicator.has_unsent, replicator.can_send(0.0)) == (1, True, False)
    replicator.size_limit_read(limit, 0.0)
    sizes = sizes_sent(replicator)
    assert max(sizes) <= limit
    assert len(sizes) == 4, "not halved: each batch is split in a large and a small one"
    assert max(sizes) > batch.size * 0.85
    assert (replicator.position, listener.sizes_rejected) == (20, 1)


def test_the_limit_is_read_again_when_a_batch_within_it_is_rejected() -> None:
    replicator, listener = partition()
    arrive(replicator, data(0, 10, 100))
    rejected(replicator)
    replicator.size_limit_read(1_000, 0.0)
    first = rejected(replicator)
    assert (first.size <= 1_000, listener.sizes_rejected) == (True, 2)
    replicator.size_limit_read(400, 0.0)
    assert max(sizes_sent(replicator)) <= 400
    assert replicator.position == 10


@pytest.mark.parametrize("limit", [None, 5_000])
def test_a_limit_that_does_not_explain_the_rejection_is_found_by_halving(limit: int | None) -> None:
    """It cannot be read, or the broker compresses batches again, and the result is above it."""
    replicator, _ = partition()
    arrive(replicator, data(0, 10, 100))
    half = rejected(replicator).size // 2
    replicator.size_limit_read(limit, 0.0)
    assert max(sizes_sent(replicator)) <= half


def test_a_batch_above_a_known_limit_is_split_without_reading_it_again() -> None:
    replicator, listener = partition()
    arrive(replicator, data(0))
    (entry,) = send(replicator)
    replicator.acknowledged(entry, 0, 0.0, WALL)
    arrive(replicator, data(1, 10, 100), data(11, 10, 100))
    first, second = send(replicator)
    for one in (first, second):
        replicator.produce_failed(one, from_response(ErrorCode.MESSAGE_TOO_LARGE), 0.0)
    replicator.size_limit_read(600, 0.0)
    while replicator.position < 11:
        replicator.acknowledged(send(replicator)[0], -1, 0.0, WALL)
        replicator.set_producer_id(ProducerId(100 + replicator.position, 0))
    assert rejected(replicator) is second.batch
    assert max(sizes_sent(replicator)) <= 600
    assert (replicator.position, listener.sizes_rejected) == (21, 1)


def test_memory_released_while_the_limit_is_read() -> None:
    replicator, _ = partition()
    arrive(replicator, data(0, 10, 100))
    rejected(replicator)
    replicator.release_memory(0.0)
    assert (replicator.is_idle, replicator.held_bytes, replicator.fetch_offset) == (True, 0, 0)
    arrive(replicator, data(0, 10, 100))
    assert not replicator.can_send(0.0)
    replicator.size_limit_read(600, 0.0)
    assert max(sizes_sent(replicator)) <= 600
    replicator.size_limit_read(10, 0.0)
    arrive(replicator, data(10, 2, 100))
    assert len(sizes_sent(replicator)) == 1, "an answer that nobody waits for changes nothing"


def zstd(offset: int) -> bytes:
    return Batch(records=[Record(offset, 0, b"k", b"v" * 100)], codec=Codec.ZSTD).encode()


def test_another_codec_replaces_one_that_the_target_does_not_support() -> None:
    replicator, listener = partition()
    arrive(replicator, data(0))
    replicator.acknowledged(send(replicator)[0], 0, 0.0, WALL)
    arrive(replicator, zstd(1), data(2))
    rejected, following = send(replicator)
    replicator.produce_failed(rejected, from_response(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), 0.0)
    replicator.produce_failed(following, from_response(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), 0.0)
    assert (is_failed(replicator), message(replicator), listener.pauses) == (False, None, [])
    assert (replicator.fetch_offset, replicator.held_bytes) == (1, 0)
    arrive(replicator, zstd(1), data(2), zstd(3))
    codecs = []
    while not replicator.is_idle:
        for entry in send(replicator):
            codecs.append((entry.batch.sequence, entry.batch.codec))
            replicator.acknowledged(entry, -1, 0.0, WALL)
    assert codecs == [(1, Codec.LZ4), (2, Codec.NONE), (3, Codec.LZ4)]
    arrive(replicator, zstd(4))
    (entry,) = send(replicator, TIMEOUTS.rejection_memory_s)
    assert entry.batch.codec == Codec.ZSTD, "the target may have been upgraded"


def test_a_codec_that_is_required_and_not_supported_fails_the_partition() -> None:
    replicator, _ = partition(rules=BatchRules(codec=Codec.ZSTD))
    arrive(replicator, data(0))
    (entry,) = send(replicator)
    replicator.produce_failed(entry, from_response(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), 0.0)
    assert is_failed(replicator)
    assert message(replicator) == (
        "cannot copy orders-3 offset 0 to A.orders-3: UNSUPPORTED_COMPRESSION_TYPE; set compression.type of the flow's "
        "producer to a codec that the target supports"
    )


def test_a_bomb_with_a_codec_that_the_target_does_not_support_fails_the_partition() -> None:
    replicator, _ = partition()
    unsupported = from_response(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    for _ in range(2):
        assert not is_failed(replicator)
        arrive(replicator, bomb(0))
        (entry,) = send(replicator)
        replicator.produce_failed(entry, unsupported, 0.0)
    assert is_failed(replicator)
