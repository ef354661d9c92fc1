from __future__ import annotations

import pytest

from flows.batch.blob import batches
from flows.batch.target_batch import NOT_IDEMPOTENT, ProducerId, SourceBatch, TargetBatch, next_sequence, pass_through
from tests.lab.batches import DELETE_HORIZON, HEADER, TRANSACTIONAL, Batch, Record, read

RECORDS = [Record(70, 1_000, b"k", b"v"), Record(71, 900, None, b"x" * 100)]


def outgoing(**changes: object) -> TargetBatch:
    raw = Batch(records=RECORDS, producer=(99, 4, 17), **changes).encode()  # type: ignore[arg-type]
    ((header, data),) = batches(raw, check_crcs=True)
    return pass_through(SourceBatch(header, data, 72, 500, 0.0))


def test_stamping_changes_only_the_header() -> None:
    batch = outgoing(attributes=TRANSACTIONAL | DELETE_HORIZON, codec=2)
    batch.sequence = 8
    batch.stamp(ProducerId(4711, 3))
    head, records = batch.wire()
    base, length, epoch, magic, _, attributes, last_delta, first, latest, producer, producer_epoch, sequence, count = (
        HEADER.unpack(head)
    )
    assert (base, length, epoch, magic) == (0, len(head) + len(records) - 12, -1, 2)
    assert attributes == 2, "the codec is all that is left"
    assert (last_delta, count) == (1, 2)
    assert (first, latest) == (1_000, 1_000)
    assert (producer, producer_epoch, sequence) == (4711, 3, 8)
    assert isinstance(records, memoryview), "not copied"
    assert [one[1:] for one in read(head + records)] == [one[1:] for one in RECORDS]


def test_the_same_stamp_gives_the_same_bytes_and_another_one_others() -> None:
    batch = outgoing()
    batch.sequence = 8
    batch.stamp(ProducerId(1, 0))
    first = batch.wire()[0]
    batch.stamp(ProducerId(1, 0))
    assert batch.wire()[0] is first
    batch.stamp(ProducerId(2, 0))
    assert batch.wire()[0] != first


def test_writes_without_idempotence_have_no_producer_id() -> None:
    batch = outgoing()
    batch.stamp(NOT_IDEMPOTENT)
    assert HEADER.unpack(batch.wire()[0])[9:12] == (-1, -1, -1)


def test_source_offsets_of_records_from_several_runs() -> None:
    batch = outgoing()
    batch.runs = ((10, 2), (20, 1), (30, 3))
    assert [batch.source_offset(index) for index in range(6)] == [10, 11, 20, 30, 31, 32]
    assert (batch.first_offset, batch.last_offset) == (10, 32)


@pytest.mark.parametrize(
    ("sequence", "count", "following"),
    [(0, 1, 1), (10, 90, 100), (2**31 - 1, 1, 0), (2**31 - 10, 30, 20)],
)
def test_sequences_wrap(sequence: int, count: int, following: int) -> None:
    assert next_sequence(sequence, count) == following
