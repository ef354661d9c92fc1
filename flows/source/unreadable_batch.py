"""The extent of a fetched batch that cannot be read, as far as its damaged header can be trusted."""

from __future__ import annotations

from typing import NamedTuple

from flows.batch.blob import batches
from flows.batch.header import HEADER_BYTES, MAGIC, BatchHeader, CorruptBatchError, read_header


class UnreadableBatch(NamedTuple):
    """A batch from source offset ``first`` up to, not including, ``until`` (None: unknown), and its bytes."""

    first: int
    until: int | None
    data: bytes


def unreadable_batch(rest: memoryview, wanted: int, high_watermark: int) -> UnreadableBatch:
    """Return the extent of the first batch in ``rest``, which was fetched from source offset ``wanted``.

    The header is trusted if it is of the current format, does not contradict the batch that follows or
    ``high_watermark`` (-1: unknown), and shows no gaps. Otherwise the batch ends where the next one begins, if that one
    is intact: offsets that were never in the batch can then be in the range, but none that was is left out.
    """
    if len(rest) < HEADER_BYTES:
        return UnreadableBatch(wanted, None, bytes(rest))
    header = read_header(rest, 0)
    is_whole = HEADER_BYTES <= header.size <= len(rest)
    following = _next(rest[header.size :], wanted) if is_whole else None
    data = bytes(rest[: header.size] if is_whole else rest)
    end = following.base_offset if following is not None else high_watermark
    is_plausible = (
        is_whole and _agrees(header) and wanted < header.next_offset and (end < 0 or header.next_offset <= end)
    )
    if is_plausible and (following is None or (header.base_offset >= wanted and not header.has_holes)):
        return UnreadableBatch(max(wanted, header.base_offset), header.next_offset, data)
    if following is not None and wanted < following.base_offset:
        return UnreadableBatch(wanted, following.base_offset, data)
    return UnreadableBatch(wanted, None, data)


def _agrees(header: BatchHeader) -> bool:
    return header.magic == MAGIC and header.base_offset >= 0 and 0 < header.record_count <= header.last_offset_delta + 1


def _next(rest: memoryview, wanted: int) -> BatchHeader | None:
    """Return the header of the intact batch at the start of ``rest``."""
    try:
        return next((header for header, _ in batches(rest, check_crcs=True, start=wanted)), None)
    except CorruptBatchError:
        return None
