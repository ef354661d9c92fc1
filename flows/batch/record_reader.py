"""The contents of single records, for those that cannot be copied. Copied records are not decoded.

`flows.batch.records` has the grammar.
"""

from __future__ import annotations

from dataclasses import dataclass

from flows.batch.header import CorruptBatchError
from flows.batch.records import read_varint, read_varlong, wrapped
from flows.batch.steps import STEP_BYTES, Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedRecord:
    """One record. ``timestamp_ms`` is epoch milliseconds, -1: none. Names of headers can be invalid UTF-8."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


def record_starts(records: bytes, count: int, first_offset: int) -> Steps[list[int]]:
    """Return where each of ``count`` uncompressed records starts, and where the last one ends.

    ``first_offset`` is the source offset for messages. Raises CorruptBatchError if the bytes do not contain as many.
    """
    starts = [0]
    at, step_end = 0, STEP_BYTES
    try:
        for _ in range(count):
            length, start = read_varint(records, at)
            if length < 0:
                break
            at = start + length
            starts.append(at)
            if at >= step_end:
                step_end = at + STEP_BYTES
                yield
    except (IndexError, ValueError):
        starts = []
    if len(starts) != count + 1 or at != len(records):
        raise CorruptBatchError(
            f"batch at offset {first_offset}: its {len(records)} bytes of records do not contain the {count} records "
            "that its header declares"
        )
    return starts


def read_record(records: bytes, base_timestamp: int, offset: int) -> DecodedRecord:
    """Return the first of these uncompressed records, which is at source offset ``offset``.

    ``base_timestamp`` is that of its batch. Raises CorruptBatchError.
    """
    try:
        _, at = read_varint(records, 0)
        delta, at = read_varlong(records, at + 1)
        _, at = read_varint(records, at)
        key, at = _bytes(records, at)
        value, at = _bytes(records, at)
        count, at = read_varint(records, at)
        headers = []
        for _ in range(count):
            name, at = _bytes(records, at)
            content, at = _bytes(records, at)
            headers.append((name or b"", content))
    except (IndexError, ValueError) as error:
        raise CorruptBatchError(f"record at offset {offset} cannot be read: {error}") from error
    return DecodedRecord(timestamp_ms=wrapped(base_timestamp + delta), key=key, value=value, headers=tuple(headers))


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = read_varint(data, at)
    if length < 0:
        return None, at
    if at + length > len(data):
        raise ValueError(f"{length} bytes at {at} of {len(data)}")
    return data[at : at + length], at + length
