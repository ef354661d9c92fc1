"""MessageSets, the formats before Kafka 0.11 (magic 0 and 1), converted to records of a batch in format v2.

Grammar (big-endian; offsets of bytes in brackets):

    message    := offset i64 [0] | length i32 [8] | crc u32 [12] | magic i8 = 0 or 1 [16] | attributes i8 [17]
                  | timestamp i64 (magic 1 only) | key length i32, key | value length i32, value
    length     := bytes after the length field; length of a key or value: -1 is null
    crc        := CRC-32 of everything from the magic byte on
    attributes := bits 0-2 codec (0 none, 1 gzip, 2 snappy, 3 lz4) | bit 3 the timestamp is the broker's append time

A message with a codec is a wrapper: its value is message*, compressed. Its offset is that of the last message inside,
and with bit 3 its timestamp applies to all of them. Inside, offsets are absolute in magic 0, and relative in magic 1:
their distances count. The lz4 frames of magic 0 have a wrong header checksum (KAFKA-3160).

There are no headers, and magic 0 has no timestamps. Connect passes such a record without a timestamp to its producer,
which takes the current time; so does this module.

Rules from org.apache.kafka.common.record.AbstractLegacyRecordBatch and LegacyRecord.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from flows.batch.codecs import records_of
from flows.batch.header import (
    CODEC_MASK,
    LENGTH_END,
    LOG_APPEND_TIME,
    NO_PRODUCER,
    BatchHeader,
    CorruptBatchError,
)
from flows.batch.records import varint
from flows.batch.steps import STEP_BYTES, Steps, finish
from mm2.kafka.decompression import Codec

OLD_MAGICS = (0, 1)

GROUP_BYTES = 64 * 1024
"""Uncompressed messages are read in groups of this many bytes: at that size the overhead for each group is negligible,
and it is half of what small batches are merged to."""

_FIXED = struct.Struct(">qiIbb")
_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_CRC_START = 16
_FIELDS_START = (18, 26)  # of the key, by magic
_MIN_LENGTH = (14, 22)  # by magic, with null key and null value
_NO_TIMESTAMP = -1
_UINT32 = 0xFFFFFFFF
_HIGHEST_DELTA = 2**31 - 1  # of offsets in a batch of format v2


class Message(NamedTuple):
    """One message. ``start`` and ``end`` are its place in the bytes it was read from."""

    offset: int
    magic: int
    attributes: int
    timestamp: int
    start: int
    end: int

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK


def read_messages(view: memoryview, at: int, start: int, *, check_crcs: bool) -> tuple[BatchHeader, memoryview] | None:
    """Return a wrapper, or a group of uncompressed messages, as a batch with its bytes; None if it is cut off.

    The messages begin at byte ``at``. What a wrapper contains is not known before `convert`: its first offset is taken
    to be ``start``, the offset after what was read before, and it counts as one record. Raises CorruptBatchError for
    the first message.
    """
    first = last = _read(view, at, check_crcs=check_crcs)
    if first is None or last is None:
        return None
    if first.codec:
        return _header(first, first, min(start, first.offset), 1, first.timestamp), view[at : first.end]
    count, newest = 1, first.timestamp
    while last.end - at < GROUP_BYTES:
        try:
            following = _read(view, last.end, check_crcs=check_crcs)
        except CorruptBatchError:
            break  # raised again when it is the first
        if (
            following is None
            or following.magic != first.magic
            or following.codec
            or not last.offset < following.offset <= first.offset + _HIGHEST_DELTA
            or following.end - at > GROUP_BYTES
        ):
            break
        last = following
        count += 1
        newest = max(newest, last.timestamp)
    return _header(first, last, first.offset, count, newest), view[at : last.end]


def converted(
    header: BatchHeader, data: memoryview, *, limit: int, check_crcs: bool, now_ms: int
) -> Steps[tuple[BatchHeader, bytes]]:
    """Return the header that describes the records of a batch from `read_messages`, and its records in format v2.

    ``limit``: bytes that a wrapper may contain. ``now_ms``: timestamp of records that have none, in epoch ms. Raises
    CorruptBatchError and BatchTooLargeError.
    """
    messages = (yield from _unwrapped(data, limit, check_crcs)) if header.codec else _stored(data)
    records = bytearray()
    step_end = STEP_BYTES
    base_offset = base_timestamp = newest = count = 0
    previous = -1
    for offset, timestamp, fields in messages:
        if not previous < offset < header.next_offset:
            raise CorruptBatchError(
                f"message at offset {header.next_offset - 1}: it contains offset {offset} after {previous}"
            )
        when = now_ms if timestamp == _NO_TIMESTAMP else timestamp
        if not count:
            base_offset, base_timestamp, newest = offset, when, when
            if header.next_offset - 1 - base_offset > _HIGHEST_DELTA:
                raise CorruptBatchError(
                    f"message at offset {header.next_offset - 1}: it contains offset {offset}, too far from its own"
                )
        body = b"".join((b"\x00", varint(when - base_timestamp), varint(offset - base_offset), fields, b"\x00"))
        records += varint(len(body))
        records += body
        newest = max(newest, when)
        previous = offset
        count += 1
        if len(records) >= step_end:
            step_end = len(records) + STEP_BYTES
            yield
    found = header._replace(
        base_offset=base_offset,
        last_offset_delta=header.next_offset - 1 - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=newest,
        record_count=count,
    )
    return found, bytes(records)


def convert(
    header: BatchHeader, data: memoryview, *, limit: int, check_crcs: bool, now_ms: int
) -> tuple[BatchHeader, bytes]:
    """Return what `converted` does, at once."""
    return finish(converted(header, data, limit=limit, check_crcs=check_crcs, now_ms=now_ms))


def _stored(data: memoryview) -> Iterator[tuple[int, int, bytes]]:
    """Yield offset, timestamp, and key and value in format v2, of uncompressed messages, whose CRCs were checked."""
    for message in _all(data, check_crcs=False):
        yield message.offset, message.timestamp, _fields(data, message)


def _unwrapped(data: memoryview, limit: int, check_crcs: bool) -> Steps[Iterator[tuple[int, int, bytes]]]:
    """Return the same of the messages in a wrapper."""
    (wrapper,) = _all(data, check_crcs=False)
    where = f"message at offset {wrapper.offset}"
    _, value = _key_and_value(data, wrapper)
    if value is None:
        raise CorruptBatchError(f"{where}: it is compressed, and its value is null")
    if wrapper.codec == Codec.ZSTD:
        raise CorruptBatchError(f"{where}: format v{wrapper.magic} has no codec {wrapper.codec}")
    frame = _with_header_checksum(value) if wrapper.codec == Codec.LZ4 and wrapper.magic == 0 else value
    inside = memoryview(records_of(wrapper.offset, wrapper.codec, frame, limit))
    messages: list[Message] = []
    step_end = STEP_BYTES
    for message in _all(inside, check_crcs=check_crcs, within=where):
        if message.codec:
            raise CorruptBatchError(f"{where}: it contains a compressed message")
        messages.append(message)
        if message.end >= step_end:
            step_end = message.end + STEP_BYTES
            yield
    if not messages:
        raise CorruptBatchError(f"{where}: it is compressed, and empty")
    base = wrapper.offset - messages[-1].offset if wrapper.magic else 0
    append_time = wrapper.timestamp if wrapper.magic and wrapper.attributes & LOG_APPEND_TIME else None
    return (
        (
            base + message.offset,
            message.timestamp if append_time is None or not message.magic else append_time,
            _fields(inside, message),
        )
        for message in messages
    )


def _all(data: memoryview, *, check_crcs: bool, within: str = "") -> Iterator[Message]:
    """Yield every message of ``data``, which contains only whole ones. Raises CorruptBatchError."""
    at = 0
    while at < len(data):
        message = _read(data, at, check_crcs=check_crcs, within=within)
        if message is None:
            raise CorruptBatchError(f"{within}: it ends within a message")
        yield message
        at = message.end


def _read(view: memoryview, at: int, *, check_crcs: bool, within: str = "") -> Message | None:
    """Return the message at ``at``; None if it is cut off, or has another format. Raises CorruptBatchError."""
    if at + _FIXED.size > len(view):
        return None
    offset, length, crc, magic, attributes = _FIXED.unpack_from(view, at)
    if magic not in OLD_MAGICS:
        return None
    where = within or f"message at offset {offset}"
    if length < _MIN_LENGTH[magic]:
        raise CorruptBatchError(f"{where}: invalid length {length}")
    end = at + LENGTH_END + length
    if end > len(view):
        return None
    if check_crcs and zlib.crc32(view[at + _CRC_START : end]) != crc:
        raise CorruptBatchError(f"{where}: CRC mismatch ({length} bytes)")
    timestamp = _TIMESTAMP.unpack_from(view, at + _FIXED.size)[0] if magic else _NO_TIMESTAMP
    return Message(offset, magic, attributes, timestamp, at, end)


def _header(first: Message, last: Message, base_offset: int, count: int, newest: int) -> BatchHeader:
    return BatchHeader(
        base_offset=base_offset,
        length=last.end - first.start - LENGTH_END,
        leader_epoch=-1,
        magic=first.magic,
        crc=0,
        attributes=first.codec,
        last_offset_delta=last.offset - base_offset,
        base_timestamp=first.timestamp,
        max_timestamp=newest,
        producer_id=NO_PRODUCER,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )


def _key_and_value(view: memoryview, message: Message) -> tuple[memoryview | None, memoryview | None]:
    at = message.start + _FIELDS_START[message.magic]
    found: list[memoryview | None] = []
    for _ in range(2):
        if at + _LENGTH.size > message.end:
            break
        (length,) = _LENGTH.unpack_from(view, at)
        at += _LENGTH.size
        found.append(None if length < 0 else view[at : at + length])
        at += max(0, length)
    if len(found) < 2 or at != message.end:
        raise CorruptBatchError(f"message at offset {message.offset}: key and value do not fill it")
    return found[0], found[1]


def _fields(view: memoryview, message: Message) -> bytes:
    """Return key and value as in a record of format v2."""
    parts: list[bytes | memoryview] = []
    for field in _key_and_value(view, message):
        parts += (varint(-1), b"") if field is None else (varint(len(field)), field)
    return b"".join(parts)


def _with_header_checksum(frame: memoryview) -> bytes:
    """Return an lz4 frame with the checksum of its header corrected.

    Producers of magic 0 computed it over four bytes too many. header := magic 4 bytes | flags | block size
    | content size (flag 8) 8 bytes | dictionary id (flag 1) 4 bytes | checksum
    """
    if len(frame) <= _FRAME_FLAGS:
        return bytes(frame)  # the codec reports it
    flags = frame[_FRAME_FLAGS]
    end = _FRAME_FLAGS + 2 + (8 if flags & 8 else 0) + (4 if flags & 1 else 0)
    checksum = xxh32(bytes(frame[_FRAME_FLAGS:end])) >> 8 & 0xFF
    return b"".join((frame[:end], bytes((checksum,)), frame[end + 1 :]))


_FRAME_FLAGS = 4
_PRIMES = (0, 2_654_435_761, 2_246_822_519, 3_266_489_917, 668_265_263, 374_761_393)


def xxh32(data: bytes) -> int:
    """Return the XXH32 hash, with seed 0, of less than 16 bytes."""
    words = len(data) // 4
    result = _PRIMES[5] + len(data)
    for (word,) in struct.iter_unpack("<I", data[: words * 4]):
        result = _rotated(result + word * _PRIMES[3], 17) * _PRIMES[4]
    for byte in data[words * 4 :]:
        result = _rotated(result + byte * _PRIMES[5], 11) * _PRIMES[1]
    result &= _UINT32
    result = (result ^ result >> 15) * _PRIMES[2] & _UINT32
    result = (result ^ result >> 13) * _PRIMES[3] & _UINT32
    return result ^ result >> 16


def _rotated(value: int, bits: int) -> int:
    value &= _UINT32
    return (value << bits | value >> 32 - bits) & _UINT32
