"""A batch that cannot be numbered, stamped or encoded stops its partition only."""

from __future__ import annotations

import struct

from flows.batch.header import HEADER_BYTES
from flows.batch.target_batch import ProducerId
from flows.partition.timeouts import TIMEOUTS
from mm2.core.lanes.losses import LossKind
from tests.lab.batches import HEADER, Batch, Record, read, sealed
from tests.unit.flows.replicators import WALL, arrive, data, is_failed, message, partition, send

NO_64_BITS = ProducerId(1 << 63, 0)


def wrapping(offset: int) -> bytes:
    """A batch that starts before what is wanted, whose record has the timestamp -2 in Java."""
    raw = bytearray(Batch(records=[Record(offset, 0, b"k", b"v"), Record(offset + 1, 2**62, b"k", b"v")]).encode())
    return sealed(raw, [*HEADER.unpack_from(raw)[:7], 2**63 - 1, 2**63 - 1, *HEADER.unpack_from(raw)[9:]])


def test_a_timestamp_that_wraps_is_copied() -> None:
    replicator, _ = partition(start=1)
    arrive(replicator, wrapping(0))
    (entry,) = send(replicator)
    (record,) = read(b"".join(bytes(piece) for piece in entry.batch.wire()))
    assert record.timestamp == (2**63 - 1 + 2**62) - 2**64
    assert struct.unpack_from(">q", entry.batch.wire()[0], 35) == (-1,)  # no timestamp is above it


def test_the_partition_stops_at_the_record_and_can_skip_it() -> None:
    replicator, listener = partition(dead_letters="letters")
    replicator.set_producer_id(NO_64_BITS)
    arrive(replicator, data(0, 3))
    for _ in range(3):  # the batch, its halves, the record
        assert replicator.next_batch(0.0) is None
    assert (message(replicator) or "").startswith(
        "cannot copy orders-3 offset 0 to A.orders-3: unexpected error: error("
    )
    assert (is_failed(replicator), replicator.held_bytes, listener.letters) == (True, 0, [])
    assert listener.pauses == [TIMEOUTS.failed_retry_s]
    replicator.request_skip(0, 0.0)
    assert (replicator.position, [loss.kind for loss in listener.losses]) == (1, [LossKind.SKIPPED])


def test_batches_in_flight_before_it_are_completed_first() -> None:
    replicator, _ = partition()
    arrive(replicator, data(0), data(1), data(2))
    (first,) = send(replicator)
    replicator.acknowledged(first, 0, 0.0, WALL)
    second = replicator.next_batch(0.0)
    assert second is not None
    replicator._in_flight.producer_id = NO_64_BITS
    assert replicator.next_batch(0.0) is None
    assert (is_failed(replicator), replicator.can_send(0.0)) == (False, False)
    replicator.acknowledged(second, 1, 0.0, WALL)
    assert (replicator.position, is_failed(replicator)) == (2, True)


def test_a_failed_attempt_leaves_the_sequences_unchanged() -> None:
    replicator, _ = partition()
    replicator.set_producer_id(NO_64_BITS)
    arrive(replicator, data(0), data(1))
    assert replicator.next_batch(0.0) is None
    replicator.set_producer_id(ProducerId(7, 0))
    replicator.wake(TIMEOUTS.failed_retry_s)
    arrive(replicator, data(0), data(1), now=TIMEOUTS.failed_retry_s)
    (entry,) = send(replicator, TIMEOUTS.failed_retry_s)
    assert HEADER.unpack_from(entry.batch.wire()[0])[11] == 0
    assert len(entry.batch.wire()[0]) == HEADER_BYTES
