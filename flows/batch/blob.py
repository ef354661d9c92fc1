"""The batches of a fetched blob, in format v2 or as messages of the formats before Kafka 0.11."""

from __future__ import annotations

from collections.abc import Iterator

import crc32c

from flows.batch.header import (
    CRC_START,
    HEADER_BYTES,
    LENGTH_END,
    LENGTH_TO_MAGIC,
    MAGIC,
    MAGIC_END,
    BatchHeader,
    CorruptBatchError,
    read_header,
)
from flows.batch.old_formats import OLD_MAGICS, read_messages


def batches(blob: bytes | memoryview, *, check_crcs: bool, start: int = 0) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield the complete batches of a fetched blob with their bytes; one cut off at the end is omitted.

    Messages of the old formats are read as batches with their magic, which `flows.batch.old_formats.convert` converts.
    ``start``: the offset that was fetched from. Raises CorruptBatchError (invalid length, CRC mismatch) after the
    batches before the bad one were yielded.
    """
    view = memoryview(blob)
    end = len(view)
    at = 0
    while at + MAGIC_END <= end:
        length, _, magic = LENGTH_TO_MAGIC.unpack_from(view, at + 8)
        if magic != MAGIC:
            if magic not in OLD_MAGICS:
                raise CorruptBatchError(f"batch at offset {_base_offset(view, at)}: unknown magic {magic}")
            old = read_messages(view, at, start, check_crcs=check_crcs)
            if old is None:
                return
            yield old
            start = max(start, old[0].next_offset)
            at += len(old[1])
            continue
        if length < HEADER_BYTES - LENGTH_END:
            raise CorruptBatchError(f"batch at offset {_base_offset(view, at)}: invalid length {length}")
        until = at + LENGTH_END + length
        if until > end:
            return
        header = read_header(view, at)
        if check_crcs and crc32c.crc32c(view[at + CRC_START : until]) != header.crc:
            raise CorruptBatchError(f"batch at offset {header.base_offset}: CRC mismatch ({length} bytes)")
        yield header, view[at:until]
        start = header.next_offset
        at = until


def _base_offset(view: memoryview, at: int) -> int:
    return int.from_bytes(view[at : at + 8], "big", signed=True)
