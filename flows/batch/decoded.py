"""The records of batches, decoded in steps, for those that are changed or routed record by record.

A batch of a few kilobytes can hold gigabytes of records, and is legal: so only a part of them is uncompressed at a
time, up to `CHUNK_BYTES`, or one larger record. A record is limited by the memory that it takes: its bytes, and
`HEADER_COST` for each header.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NoReturn

from aiokafka.record.default_records import DefaultRecord, DefaultRecordBatch

from flows.batch.choice import MAX_UNCOMPRESSED
from flows.batch.codecs import records_of
from flows.batch.header import (
    CODEC_MASK,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    BatchHeader,
    BatchTooLargeError,
    CorruptBatchError,
)
from flows.batch.old_formats import convert
from flows.batch.records import read_varint, read_varlong
from mm2.kafka.decompression import Buffer, Codec, DecompressionError, OutputTooLargeError, decompressed

MAX_RECORD = MAX_UNCOMPRESSED
"""A record may take this much memory, in bytes; or as much as the batch that contains it, compressed or not, has on the
broker, so that what is not compressed is never too large."""

CHUNK_BYTES = 256 * 1024
"""Uncompressed bytes of records that are decoded together. As objects they take up to forty times as much, if they
consist of empty headers: 10 MB."""

HEADER_COST = 64
"""What a header takes besides its bytes: a tuple in Python, and a struct of two offsets and lengths in Spark's JVM. In
the batch it can be two bytes."""

_SMALLEST_HEADER = 2
_HIGHEST_COST = 1 + HEADER_COST // _SMALLEST_HEADER
"""What a record can take for each of its bytes."""

_PREFIX_BYTES = 21
"""Bytes of a record up to its offset, at most: its length, attributes, timestamp and offset."""

Chunk = tuple[BatchHeader, Iterator[DefaultRecord]]


class RecordTooLargeError(Exception):
    """The record at source offset ``offset`` takes more memory than one record may."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset


def decoded(
    header: BatchHeader, data: memoryview, *, wanted: int, limit: int, arrived_ms: int
) -> Iterator[Chunk | None]:
    """Yield the records of a batch in chunks, each with a header in format v2.

    None is a step without records, while one is skipped that is not wanted and too large. Other records before source
    offset ``wanted`` can be among the records. ``limit``: memory of one record in bytes, or as many as the batch has on
    the broker; a wrapper in an old format is decoded as a whole, and may contain as many. ``arrived_ms`` is the
    timestamp of messages that have none, epoch ms.

    Raises CorruptBatchError, RecordTooLargeError and BatchTooLargeError, also after some chunks. Reading the records of
    a chunk can raise CorruptRecordException, and ValueError for the name of a header.
    """
    limit = max(limit, header.size)
    codec, stored = header.codec, data[HEADER_BYTES:]
    if header.magic != MAGIC:
        header, converted = convert(header, data, limit=limit, check_crcs=False, now_ms=arrived_ms)
        codec, stored = Codec.NONE, memoryview(converted)
    whole = min(CHUNK_BYTES, limit // _HIGHEST_COST)
    if len(stored) <= whole:
        try:
            records = records_of(header.base_offset, codec, stored, whole)
        except BatchTooLargeError:
            pass
        else:
            yield _chunk(header, header.record_count, records)
            return
    yield from _cut(header, _pieces(header, codec, stored, limit), wanted, limit)


def _pieces(header: BatchHeader, codec: int, stored: memoryview, limit: int) -> Iterator[Buffer]:
    try:
        yield from decompressed(codec, stored, CHUNK_BYTES, limit)
    except DecompressionError as error:
        raise CorruptBatchError(f"batch at offset {header.base_offset}: {error}") from error
    except OutputTooLargeError as error:
        in_steps = "" if codec == Codec.SNAPPY else "install pyarrow, with which it is decoded in steps, or "
        raise BatchTooLargeError(
            f"batch at offset {header.base_offset} is too large to be decoded as a whole: {error}; {in_steps}raise"
            " max.partition.fetch.bytes of the flow's consumer"
        ) from None


def _cut(header: BatchHeader, pieces: Iterable[Buffer], wanted: int, limit: int) -> Iterator[Chunk | None]:
    """Cut uncompressed records, which arrive in pieces, between records. Raises what `decoded` raises."""
    held = bytearray()
    left, skipped = header.record_count, 0
    for piece in chain(pieces, [b""]):
        held += piece
        while True:
            if skipped:
                dropped = min(skipped, len(held))
                del held[:dropped]
                skipped -= dropped
                yield None
                if skipped:
                    break
            count, end, large = _whole_records(header, held, left, wanted, limit)
            if count:
                yield _chunk(header, count, bytes(memoryview(held)[:end]))
            del held[:end]
            left -= count
            if large:
                skipped, left = large, left - 1
            elif not count:
                break
    if left or held or skipped:
        raise CorruptBatchError(
            f"batch at offset {header.base_offset}: its records do not fill it, or {left} of {header.record_count} are"
            " missing"
        )


def _whole_records(  # noqa: PLR0912 - calls would cost more than all of it
    header: BatchHeader, held: bytearray, left: int, wanted: int, limit: int
) -> tuple[int, int, int]:
    """Return how many of the next ``left`` records are there as a whole, and where they end.

    They end before one that is too large and not wanted; the third number is its bytes, otherwise 0. Raises
    RecordTooLargeError for one that is wanted, if it is the first, and CorruptBatchError.
    """
    at = count = 0
    available = len(held)
    light = limit // _HIGHEST_COST
    try:
        while count < left and at < available:
            length = held[at]
            if length < 0x80:  # varints of one or two bytes are the most frequent: a call costs ten times as much
                start, length = at + 1, (length >> 1) ^ -(length & 1)
            elif at + 1 < available and held[at + 1] < 0x80:
                length = length & 0x7F | held[at + 1] << 7
                start, length = at + 2, (length >> 1) ^ -(length & 1)
            else:
                try:
                    length, start = read_varint(held, at)
                except IndexError:
                    break  # the rest of it is in the next piece
            end = start + length
            if end < start:
                _corrupt(header, f"a record of {length} bytes")
            if length > light and (length > limit or end <= available):
                if length > limit and available - at < min(_PREFIX_BYTES, end - at):
                    break
                offset = header.base_offset + _offset_delta(held, start)
                reason = _too_large(held, start, length, limit)
                if reason is not None:
                    if offset < wanted:
                        return count, at, end - at
                    if count:
                        return count, at, 0  # these come first
                    raise RecordTooLargeError(offset, f"the record at offset {offset} is too large: {reason}")
            if end > available:
                break
            at = end
            count += 1
    except (IndexError, ValueError) as error:
        _corrupt(header, str(error))
    return count, at, 0


def _corrupt(header: BatchHeader, why: str) -> NoReturn:
    raise CorruptBatchError(f"batch at offset {header.base_offset}: {why}")


def _offset_delta(held: bytearray, start: int) -> int:
    _, at = read_varlong(held, start + 1)
    return read_varint(held, at)[0]


def _too_large(held: bytearray, start: int, length: int, limit: int) -> str | None:
    """Return why a record takes too much memory; None if it does not."""
    if length > limit:
        return f"it has {length} bytes uncompressed, and a record may have {limit}"
    _, at = read_varlong(held, start + 1)
    _, at = read_varint(held, at)
    for _ in range(2):  # key and value
        size, at = read_varint(held, at)
        at += max(0, size)
    headers, _ = read_varint(held, at)
    if length + HEADER_COST * headers > limit:
        return (
            f"its {headers} headers take {length + HEADER_COST * headers} bytes of memory ({HEADER_COST} for each, and"
            f" {length} for the record), and a record may take {limit}"
        )
    return None


_BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")


def _chunk(header: BatchHeader, count: int, records: bytes) -> Chunk:
    """Return ``count`` records of a batch without compression; the CRC of the batch is not valid."""
    of_chunk = header._replace(
        length=HEADER_BYTES - LENGTH_END + len(records),
        magic=MAGIC,
        attributes=header.attributes & ~CODEC_MASK,
        record_count=count,
    )
    return header, chain(DefaultRecordBatch(with_header(of_chunk, records)))  # unlike aiokafka's, it can be continued


def with_header(header: BatchHeader, records: bytes) -> bytes:
    """Return a batch with exactly this header."""
    return _BATCH_HEADER.pack(*header) + records
