from __future__ import annotations

from flows.batch.header import CorruptBatchError
from flows.source.completed_fetch import BATCH_OVERHEAD, CompletedFetch, read_completed_fetch
from mm2.kafka.protocol.fetch_request import FetchedPartition
from tests.lab.batches import COMMIT, Batch, Record, marker


def data(offset: int) -> bytes:
    return Batch(records=[Record(offset, 0, b"k", b"v"), Record(offset + 1, 0, b"k", b"v")]).encode()


def taken(*blobs: bytes, wanted: int = 0) -> CompletedFetch:
    fetched = FetchedPartition("t", 0, 0, 100, 100, 0, (), -1, b"".join(blobs))
    return read_completed_fetch(fetched, wanted, check_crcs=True, arrived=5.0)


def test_following_batches_without_data_belong_to_the_batch_before() -> None:
    fetch = taken(marker(0, 1, COMMIT), data(1), marker(3, 1, COMMIT), data(4), marker(6, 1, COMMIT))
    assert fetch.skipped_to == 1
    assert [(batch.header.base_offset, batch.next_offset) for batch in fetch.batches] == [(1, 4), (4, 7)]
    assert fetch.next_offset == 7


def test_the_last_batch_has_the_held_bytes_of_all() -> None:
    fetch = taken(data(0), data(2), data(4))
    assert [batch.held_bytes for batch in fetch.batches] == [0, 0, 3 * (len(data(0)) + BATCH_OVERHEAD)]
    assert taken(marker(0, 1, COMMIT)).batches == []


def test_batches_before_the_wanted_offset_are_left_out() -> None:
    fetch = taken(data(0), data(2), data(4), wanted=3)
    assert [batch.header.base_offset for batch in fetch.batches] == [2, 4]


def test_an_empty_response_changes_nothing() -> None:
    assert taken(wanted=9) == CompletedFetch(next_offset=9)


def test_bytes_without_a_batch_to_continue_from_are_an_error() -> None:
    for blobs in ((data(0)[:-1],), (data(0)[:10],), (data(3), data(5))):
        fetch = taken(*blobs, wanted=9)
        assert (fetch.next_offset, fetch.batches) == (9, [])
        assert isinstance(fetch.error, CorruptBatchError)
        size = sum(map(len, blobs))
        assert str(fetch.error) == f"the broker sent {size} bytes without a complete batch from offset 9 on"


def test_an_error_is_returned_after_the_valid_batches() -> None:
    damaged = bytearray(data(2))
    damaged[-1] ^= 1
    fetch = taken(data(0), bytes(damaged), data(4))
    assert [batch.header.base_offset for batch in fetch.batches] == [0]
    assert fetch.next_offset == 2
    assert isinstance(fetch.error, CorruptBatchError)
