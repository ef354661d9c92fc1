"""Batches with decoded records, for those that are changed or routed record by record."""

from __future__ import annotations

import struct

from aiokafka.record.default_records import DefaultRecordBatch

from flows.batch.codecs import records_of
from flows.batch.header import CODEC_MASK, HEADER_BYTES, LENGTH_END, MAGIC, BatchHeader
from flows.batch.old_formats import convert

MAX_UNCOMPRESSED = 256 * 1024 * 1024
"""Bytes of the records of one batch after decompression. A larger batch is not transformed but reported as an error, so
that a small batch that expands enormously does not use up the memory."""


def decoded(
    header: BatchHeader, data: memoryview, *, limit: int, arrived_ms: int
) -> tuple[BatchHeader, DefaultRecordBatch]:
    """Return the header of a batch in format v2, and its records.

    ``limit``: bytes of the uncompressed records, or as many as are stored. ``arrived_ms`` is the timestamp of messages
    that have none, epoch ms.
    Raises CorruptBatchError and BatchTooLargeError.
    """
    limit = max(limit, header.size)
    if header.magic != MAGIC:
        header, records = convert(header, data, limit=limit, check_crcs=False, now_ms=arrived_ms)
    else:
        records = records_of(header.base_offset, header.codec, data[HEADER_BYTES:], limit)
    return header, DefaultRecordBatch(_uncompressed(header, records))


_BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")


def _uncompressed(header: BatchHeader, records: bytes) -> bytes:
    """Return the batch without compression; its CRC is not valid."""
    length = HEADER_BYTES - LENGTH_END + len(records)
    return with_header(header._replace(length=length, magic=MAGIC, attributes=header.attributes & ~CODEC_MASK), records)


def with_header(header: BatchHeader, records: bytes) -> bytes:
    """Return a batch with exactly this header."""
    return _BATCH_HEADER.pack(*header) + records
