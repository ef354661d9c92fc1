from __future__ import annotations

import pytest

from flows.batch.blob import batches
from flows.batch.header import CorruptBatchError
from flows.source.completed_fetch import AbortedTransactions
from tests.lab.batches import ABORT, COMMIT, TRANSACTIONAL, Batch, Record, marker


def data(offset: int, producer: int, *, transactional: bool = True, count: int = 1) -> bytes:
    records = [Record(offset + number, 0, b"k", b"v") for number in range(count)]
    attributes = TRANSACTIONAL if transactional else 0
    return Batch(records=records, producer=(producer, 0, 0), attributes=attributes).encode()


def kept(aborted: list[tuple[int, int]], *log: bytes) -> list[int]:
    """Base offsets of the batches that are copied."""
    transactions = AbortedTransactions(aborted)
    found = batches(b"".join(log), check_crcs=True)
    return [header.base_offset for header, batch in found if transactions.carries_data(header, batch)]


def test_markers_are_never_copied() -> None:
    assert kept([], data(0, 1), marker(1, 1, COMMIT), data(2, 1), marker(3, 1, ABORT)) == [0, 2]


def test_an_aborted_transaction_ends_at_its_marker() -> None:
    log = [data(0, 1), data(1, 1), marker(2, 1, ABORT), data(3, 1), marker(4, 1, COMMIT)]
    assert kept([(1, 0)], *log) == [3]


def test_only_that_producers_transactional_batches_are_dropped() -> None:
    log = [data(0, 1), data(1, 2), data(2, 1, transactional=False), data(3, 1), marker(4, 1, ABORT), data(5, 1)]
    assert kept([(1, 0)], *log) == [1, 2, 5]


def test_a_transaction_aborted_later_does_not_touch_an_earlier_one() -> None:
    log = [data(0, 1), marker(1, 1, COMMIT), data(2, 1, count=3), marker(5, 1, ABORT), data(6, 1)]
    assert kept([(1, 2)], *log) == [0, 6]


def test_one_producer_aborts_twice_and_lists_come_in_any_order() -> None:
    log = [data(0, 1), marker(1, 1, ABORT), data(2, 1), marker(3, 1, COMMIT), data(4, 1), marker(5, 1, ABORT)]
    assert kept([(1, 4), (1, 0)], *log) == [2]


def test_a_transaction_that_starts_before_the_response() -> None:
    assert kept([(1, 3)], data(7, 1), marker(8, 1, ABORT), data(9, 1)) == [9]


def test_a_commit_marker_of_an_aborted_producer_does_not_end_the_abort() -> None:
    log = [marker(0, 1, COMMIT), data(1, 1), marker(2, 1, ABORT), data(3, 1)]
    assert kept([(1, 0)], *log) == [3]


def test_batches_emptied_by_compaction_have_no_data() -> None:
    assert kept([], Batch(records=[], base_offset=4, next_offset=9).encode()) == []


def test_a_marker_that_cannot_be_read() -> None:
    ((header, batch),) = batches(marker(3, 1, ABORT), check_crcs=True)
    with pytest.raises(CorruptBatchError, match="transaction marker at offset 3 cannot be read"):
        AbortedTransactions([(1, 0)]).carries_data(header, batch[:64])
