"""The records of a batch, copied into new batches without decoding keys, values or headers.

Grammar of one record (varints are zigzag, little-endian, seven bits per byte):

    record := length varint | attributes i8 | timestamp delta varlong | offset delta varint
              | key length varint, key | value length varint, value | header count varint, header*
    length := bytes after the length field

A varint has at most 5 bytes, a varlong 10; more bits than 32 or 64 are dropped. Timestamps are 64-bit numbers that
wrap: a base of 2^63-1 and a delta of 1 are -2^63, as in Java. Such a record is legal, and copied like any other.

Only the first four fields depend on the batch; everything from the key on is copied byte for byte. That preserves the
difference between null and empty, the order of headers and their names, valid UTF-8 or not, at the same cost whatever
they contain. (aiokafka's compiled record classes are about as fast, but decode the names of headers.)

Rules from org.apache.kafka.common.record.DefaultRecord.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flows.batch.header import LOG_APPEND_TIME, BatchHeader, CorruptBatchError
from flows.batch.steps import STEP_BYTES, Steps

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_LOW_32, _LOW_64 = (1 << 32) - 1, (1 << 64) - 1


def wrapped(value: int) -> int:
    """Return ``value`` as a 64-bit number with sign, as Java's long would hold it."""
    return (value - _LOWEST & _LOW_64) + _LOWEST


def varint(value: int) -> bytes:
    """Return ``value``, wrapped to 64 bits, as a zigzag varint."""
    if not _LOWEST <= value <= _HIGHEST:
        value = wrapped(value)
    zigzag = (value << 1) ^ (value >> 63)
    if zigzag < 0x80:
        return bytes((zigzag,))
    if zigzag < 0x4000:
        return bytes((zigzag & 0x7F | 0x80, zigzag >> 7))
    if zigzag < 0x200000:
        return bytes((zigzag & 0x7F | 0x80, zigzag >> 7 & 0x7F | 0x80, zigzag >> 14))
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


_TABLED = 8_192  # all varints of one or two bytes: deltas and lengths are rarely longer
_VARINTS = tuple(varint(value) for value in range(_TABLED))
END = 1 << 63  # after every offset
_GROWTH = 20  # bytes a record may grow by: length and offset delta at most 5 each, timestamp delta 10


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecords:
    """Uncompressed records for one new batch, with offsets from 0.

    ``runs`` are (first source offset, records) in order: where the records came from.
    """

    records: bytes
    count: int
    base_timestamp: int
    max_timestamp: int
    runs: tuple[tuple[int, int], ...]


class RecordRewriter:
    """Re-encodes the records of source batches in order, starting a new part when one is full.

    (A) Records keep their order, attributes, key, value and headers byte for byte.
    (B) A record's timestamp is what a consumer of the source would see: its own, or the batch's append time.
    (C) Offset deltas of a part are 0, 1, 2 and so on.
    (D) A part stays within ``part_bytes``, unless it contains a single record.
    (E) Whatever the bytes are, `add` ends after a time proportional to their number.
    """

    def __init__(self, part_bytes: int | None = None) -> None:
        self._part_bytes = part_bytes if part_bytes is not None else 1 << 62
        self._parts: list[BatchRecords] = []
        self._start_part()

    def _start_part(self) -> None:
        self._out = bytearray()
        self._count = 0
        self._base = 0
        self._max = -1
        self._runs: list[list[int]] = []
        self._next_source = -1

    def _end_part(self) -> None:
        self._parts.append(
            BatchRecords(
                records=bytes(self._out),  # not all of cramjam accepts bytearray
                count=self._count,
                base_timestamp=self._base,
                max_timestamp=self._max,
                runs=tuple((first, count) for first, count in self._runs),
            )
        )
        self._start_part()

    def parts(self) -> list[BatchRecords]:
        """Return the parts in order; empty if no record was added."""
        if self._count:
            self._end_part()
        return self._parts

    def add(self, header: BatchHeader, records: bytes, wanted: int, before: int = END) -> Steps[None]:
        """Append a source batch's uncompressed records, from source offset ``wanted`` up to, not including, ``before``.

        Raises CorruptBatchError if they do not follow the grammar; the rewriter must not be used after that.
        """
        try:
            added = yield from self._add(header, records, wanted, before)
        except IndexError:
            added = -1
        if added != header.record_count:
            raise CorruptBatchError(
                f"batch at offset {header.base_offset}: its {len(records)} bytes of records do not contain the "
                f"{header.record_count} records that its header declares"
            )

    def _add(self, header: BatchHeader, records: bytes, wanted: int, before: int) -> Steps[int]:  # noqa: PLR0911, PLR0912, PLR0915
        # This loop dominates the cost of re-batching: one pass, no calls, everything in local variables.
        source_base = header.base_offset
        source_timestamp = header.base_timestamp
        append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
        out, count, base, top = self._out, self._count, self._base, self._max
        next_source = self._next_source
        part_bytes = self._part_bytes
        varints, tabled, lowest, highest = _VARINTS, _TABLED, _LOWEST, _HIGHEST
        seen = at = 0
        end = len(records)
        step_end = 0
        while at < end:
            if at >= step_end:
                if step_end:
                    if seen > header.record_count:
                        return -1
                    yield
                step_end = at + STEP_BYTES
            length = records[at]
            at += 1
            if length > 0x7F:
                length &= 0x7F
                shift = 7
                while (byte := records[at]) > 0x7F:
                    at += 1
                    length |= (byte & 0x7F) << shift
                    shift += 7
                    if shift > 28:
                        return -1
                at += 1
                length |= byte << shift
            cursor = at + 1
            until = at + (length >> 1)

            delta = records[cursor]
            cursor += 1
            if delta > 0x7F:
                delta &= 0x7F
                shift = 7
                while (byte := records[cursor]) > 0x7F:
                    cursor += 1
                    delta |= (byte & 0x7F) << shift
                    shift += 7
                    if shift > 63:
                        return -1
                cursor += 1
                delta |= byte << shift
                if shift == 63:
                    delta &= _LOW_64
            if append_time is None:
                timestamp = source_timestamp + ((delta >> 1) ^ -(delta & 1))
                if not lowest <= timestamp <= highest:
                    timestamp = wrapped(timestamp)
            else:
                timestamp = append_time

            delta = records[cursor]
            cursor += 1
            if delta > 0x7F:
                delta &= 0x7F
                shift = 7
                while (byte := records[cursor]) > 0x7F:
                    cursor += 1
                    delta |= (byte & 0x7F) << shift
                    shift += 7
                    if shift > 28:
                        return -1
                cursor += 1
                delta |= byte << shift
            offset = source_base + (delta >> 1)

            seen += 1
            if until > end or cursor > until or (length | delta) & 1:  # odd numbers are negative
                return -1
            if not wanted <= offset < before:
                at = until
                continue

            if count and len(out) + until - at + _GROWTH > part_bytes:
                self._count, self._base, self._max, self._next_source = count, base, top, next_source
                self._end_part()
                out, count, top, next_source = self._out, 0, -1, -1
            if not count:
                base = timestamp
            if timestamp > top:  # noqa: PLR1730 - a call costs ten times as much
                top = timestamp
            if offset == next_source:
                self._runs[-1][1] += 1
            elif offset < next_source:
                return -1
            else:
                self._runs.append([offset, 1])
            next_source = offset + 1

            delta = timestamp - base
            timestamp_field = varints[delta] if 0 <= delta < tabled else varint(delta)
            offset_field = varints[count] if count < tabled else varint(count)
            length = 1 + len(timestamp_field) + len(offset_field) + until - cursor
            out += varints[length] if length < tabled else varint(length)
            out += records[at : at + 1]
            out += timestamp_field
            out += offset_field
            out += records[cursor:until]
            count += 1
            at = until
        self._count, self._base, self._max, self._next_source = count, base, top, next_source
        return seen


def with_holes(records: bytes, runs: Sequence[tuple[int, int]]) -> Steps[bytes]:
    """Return uncompressed records, whose offset deltas are 0, 1, 2 and so on, with the offsets of their ``runs``.

    ``runs`` are (first source offset, records); deltas are then counted from the first of them.
    """
    base = runs[0][0]
    out = bytearray()
    at = 0
    step_end = STEP_BYTES
    for first, count in runs:
        for offset in range(first, first + count):
            length, start = read_varint(records, at)
            at = start + length
            _, delta_at = read_varlong(records, start + 1)
            _, rest = read_varint(records, delta_at)
            delta = varint(offset - base)
            out += varint(delta_at - start + len(delta) + at - rest)
            out += records[start:delta_at] + delta + records[rest:at]
            if at >= step_end:
                step_end = at + STEP_BYTES
                yield
    return bytes(out)


def zigzag(value: int) -> int:
    """Return the number with sign that ``value`` stands for."""
    return (value >> 1) ^ -(value & 1)


def read_varint(data: bytes | bytearray, at: int) -> tuple[int, int]:
    """Return the 32-bit number at ``at``, and where it ends. Raises IndexError, and ValueError if it is too long."""
    value, at = _read(data, at, 28)
    return zigzag(value & _LOW_32), at


def read_varlong(data: bytes | bytearray, at: int) -> tuple[int, int]:
    """Return the 64-bit number at ``at``, and where it ends. Raises IndexError, and ValueError if it is too long."""
    value, at = _read(data, at, 63)
    return zigzag(value & _LOW_64), at


def _read(data: bytes | bytearray, at: int, last_shift: int) -> tuple[int, int]:
    value = shift = 0
    while (byte := data[at]) > 0x7F:
        value |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if shift > last_shift:
            raise ValueError(f"a number of more than {last_shift // 7 + 1} bytes")
    return value | byte << shift, at + 1
