"""Records are decoded in steps that take little memory, whatever the batch contains."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Iterator

import cramjam
import pytest
from aiokafka.errors import CorruptRecordException

from flows.batch.codecs import compress
from flows.batch.decoded import CHUNK_BYTES, HEADER_COST, MAX_RECORD, RecordTooLargeError, decoded
from flows.batch.header import HEADER_BYTES, BatchTooLargeError, CorruptBatchError, read_header
from flows.batch.records import varint
from tests.lab.batches import HEADER, Batch, Record, sealed

CODECS = [0, 1, 2, 3, 4]
MB = 1024 * 1024


def raw_batch(records: list[bytes], codec: int) -> memoryview:
    """Return a batch of encoded records, without decoding them."""
    fields = list(HEADER.unpack_from(Batch(records=[Record(10, 5, b"k", b"v")]).encode()))
    content = bytes(compress(codec, None, b"".join(records)))
    fields[1] = HEADER_BYTES - 12 + len(content)
    fields[5], fields[6], fields[12] = codec, len(records) - 1, len(records)
    return memoryview(sealed(bytearray(HEADER_BYTES) + content, fields))


def raw_record(delta: int, value: bytes = b"", headers: int = 0) -> bytes:
    body = (
        b"\x00\x00" + varint(delta) + varint(-1) + varint(len(value)) + value + varint(headers) + b"\x00\x01" * headers
    )
    return varint(len(body)) + body


def offsets(raw: memoryview, *, wanted: int = 0, limit: int = MAX_RECORD) -> Iterator[int]:
    for chunk in decoded(read_header(raw, 0), raw, wanted=wanted, limit=limit, arrived_ms=0):
        for record in chunk[1] if chunk is not None else ():
            if record.offset >= wanted:
                yield record.offset


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [1, 100, CHUNK_BYTES // 3, CHUNK_BYTES + 7])
def test_every_record_is_decoded_once(codec: int, size: int) -> None:
    count = 3 * CHUNK_BYTES // size if size > 1 else 50_000
    content = b"0123456789" * (size // 10 + 1)
    raw = raw_batch([raw_record(at, content[:size]) for at in range(count)], codec)
    assert list(offsets(raw)) == list(range(10, 10 + count))
    assert list(offsets(raw, wanted=11)) == list(range(11, 10 + count))


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_batch_that_decompresses_to_much_takes_little_memory(codec: int) -> None:
    raw = raw_batch([raw_record(at, bytes(100_000)) for at in range(600)], codec)
    assert len(raw) < 4 * MB
    tracemalloc.start()
    try:
        assert sum(1 for _ in offsets(raw)) == 600
        assert tracemalloc.get_traced_memory()[1] < 4 * MB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_record_that_is_too_large_is_named_and_can_be_skipped(codec: int) -> None:
    raw = raw_batch([raw_record(0), raw_record(1, bytes(3 * MB)), raw_record(2), raw_record(3, bytes(3 * MB))], codec)
    found = offsets(raw, limit=MB)
    assert next(found) == 10
    with pytest.raises(
        RecordTooLargeError, match=r"the record at offset 11 is too large: it has 3145\d\d\d bytes"
    ) as of:
        next(found)
    assert of.value.offset == 11
    found = offsets(raw, wanted=12, limit=MB)
    assert next(found) == 12
    with pytest.raises(RecordTooLargeError, match="offset 13"):
        next(found)
    assert list(offsets(raw, wanted=14, limit=MB)) == []
    assert list(offsets(raw, limit=4 * MB)) == [10, 11, 12, 13]


def test_empty_headers_count_with_what_they_take() -> None:
    count = MAX_RECORD // HEADER_COST
    raw = raw_batch([raw_record(0), raw_record(1, headers=count), raw_record(2)], 4)
    assert len(raw) < 1_000
    tracemalloc.start()
    try:
        found = offsets(raw)
        assert next(found) == 10
        with pytest.raises(RecordTooLargeError, match=f"its {count} headers take"):
            next(found)
        assert list(offsets(raw, wanted=12)) == [12]
        assert tracemalloc.get_traced_memory()[1] < 4 * MB
    finally:
        tracemalloc.stop()


def test_a_record_as_large_as_its_batch_is_decoded() -> None:
    assert list(offsets(raw_batch([raw_record(0, bytes(3 * MB))], 0), limit=MB)) == [10]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [10, CHUNK_BYTES])
def test_records_that_do_not_fill_the_batch(codec: int, size: int) -> None:
    records = [raw_record(at, bytes(size)) for at in range(4)]
    for count in (3, 5):
        raw = bytearray(raw_batch(records, codec))
        fields = list(HEADER.unpack_from(raw))
        fields[12] = count
        with pytest.raises((CorruptBatchError, CorruptRecordException)):
            list(offsets(memoryview(sealed(raw, fields))))


def test_a_truncated_stream() -> None:
    for codec in CODECS[1:]:
        whole = raw_batch([raw_record(at, bytes(range(256)) * 4_000) for at in range(3)], codec)
        with pytest.raises(CorruptBatchError, match="batch at offset 10"):
            list(offsets(memoryview(bytes(whole[: len(whole) - 20]))))


@pytest.mark.parametrize("codec", [3, 4])
def test_without_pyarrow_a_batch_is_decoded_as_a_whole(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    raw = raw_batch([raw_record(at, bytes(MB)) for at in range(3)], codec)
    assert list(offsets(raw)) == [10, 11, 12]
    with pytest.raises(BatchTooLargeError, match="install pyarrow"):
        list(offsets(raw, limit=2 * MB))


def test_a_large_block_of_snappy_without_framing() -> None:
    """librdkafka writes one for a batch; it has no parts that could be decoded alone."""
    raw = bytearray(raw_batch([raw_record(at, bytes(MB)) for at in range(3)], 0))
    block = bytes(cramjam.snappy.compress_raw(raw[HEADER_BYTES:]))
    fields = list(HEADER.unpack_from(raw))
    fields[1], fields[5] = HEADER_BYTES - 12 + len(block), 2
    stored = memoryview(sealed(raw[:HEADER_BYTES] + block, fields))
    assert list(offsets(stored, limit=4 * MB)) == [10, 11, 12]
    with pytest.raises(BatchTooLargeError, match="2097152 bytes; raise max"):
        list(offsets(stored, limit=2 * MB))
