from __future__ import annotations

from flows.batch.header import CorruptBatchError, OldFormatError
from flows.intake import BATCH_OVERHEAD, Intake, take_in
from mm2.kafka.raw_fetch import FetchedPartition
from tests.lab.batches import COMMIT, Batch, Record, marker


def data(offset: int) -> bytes:
    return Batch(records=[Record(offset, 0, b"k", b"v"), Record(offset + 1, 0, b"k", b"v")]).encode()


def taken(*blobs: bytes, wanted: int = 0) -> Intake:
    fetched = FetchedPartition("t", 0, 0, 100, 100, 0, (), -1, b"".join(blobs))
    return take_in(fetched, wanted, check_crcs=True, arrived=5.0)


def test_what_follows_a_batch_without_data_belongs_to_it() -> None:
    intake = taken(marker(0, 1, COMMIT), data(1), marker(3, 1, COMMIT), data(4), marker(6, 1, COMMIT))
    assert intake.skipped == 1
    assert [(batch.header.base_offset, batch.until) for batch in intake.batches] == [(1, 4), (4, 7)]
    assert intake.next_offset == 7


def test_the_last_batch_holds_the_bytes_of_all() -> None:
    intake = taken(data(0), data(2), data(4))
    assert [batch.held for batch in intake.batches] == [0, 0, 3 * (len(data(0)) + BATCH_OVERHEAD)]
    assert taken(marker(0, 1, COMMIT)).batches == []


def test_batches_before_the_wanted_offset_are_left_out() -> None:
    intake = taken(data(0), data(2), data(4), wanted=3)
    assert [batch.header.base_offset for batch in intake.batches] == [2, 4]


def test_an_empty_answer_changes_nothing() -> None:
    assert taken(wanted=9) == Intake(next_offset=9)


def test_trouble_comes_after_what_is_in_order() -> None:
    damaged = bytearray(data(2))
    damaged[-1] ^= 1
    intake = taken(data(0), bytes(damaged), data(4))
    assert [batch.header.base_offset for batch in intake.batches] == [0]
    assert intake.next_offset == 2
    assert isinstance(intake.trouble, CorruptBatchError)
    old = bytearray(data(2))
    old[16] = 1
    assert isinstance(taken(bytes(old)).trouble, OldFormatError)
