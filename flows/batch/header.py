"""RecordBatch v2, the unit in which Kafka stores, sends and copies records.

Grammar (big-endian; offsets of bytes in brackets):

    batch      := base offset i64 [0] | length i32 [8] | partition leader epoch i32 [12] | magic i8 = 2 [16]
                  | crc u32 [17] | attributes i16 [21] | last offset delta i32 [23]
                  | base timestamp i64 [27] | max timestamp i64 [35]
                  | producer id i64 [43] | producer epoch i16 [51] | base sequence i32 [53] | record count i32 [57]
                  | records [61]
    length     := bytes after the length field
    crc        := CRC-32C of everything from the attributes on
    attributes := bits 0-2 codec (0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd) | bit 3 the max timestamp is the broker's
                  append time and applies to all records | bit 4 transactional | bit 5 control
                  | bit 6 the base timestamp contains the delete horizon (KIP-534)
    records    := record* , compressed as a whole by the codec (flows/batch/records.py has their grammar)

A fetched blob is batch*, the last of which may be cut off (flows/batch/blob.py). The formats before Kafka 0.11 (magic 0
and 1: flows/batch/old_formats.py) have their magic byte at the same place.

Rules from org.apache.kafka.common.record.DefaultRecordBatch.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import crc32c

HEADER_BYTES = 61
LENGTH_END = 12  # the length field counts the bytes after this one
MAGIC_END = 17  # a message of the old formats may end before HEADER_BYTES
CRC_START = 21  # the CRC covers everything from here on
MAGIC = 2
NO_PRODUCER = -1

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20

_HEADER = struct.Struct(">qiibIhiqqqhii")
_COVERED = struct.Struct(">hiqqqhii")
_LEAD = struct.Struct(">qiibI")
LENGTH_TO_MAGIC = struct.Struct(">iib")  # at byte 8


class CorruptBatchError(Exception):
    """Bytes that do not follow the grammar; the message contains the position."""


class BatchTooLargeError(Exception):
    """A batch that cannot be rebuilt, since its uncompressed records exceed the limit."""


class BatchHeader(NamedTuple):
    """The first 61 bytes of a batch, field by field."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return LENGTH_END + self.length

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def next_offset(self) -> int:
        """The offset after the batch, whether or not records were compacted away at its end."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def has_holes(self) -> bool:
        """Whether compaction removed records, so that offsets in the batch are not contiguous."""
        return self.record_count != self.last_offset_delta + 1


def read_header(view: memoryview, at: int) -> BatchHeader:
    """Return the header that begins at byte ``at``, all of which must be there."""
    return BatchHeader._make(_HEADER.unpack_from(view, at))


def encode_header(
    records: bytes | memoryview,
    *,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    count: int,
) -> bytes:
    """Return the 61 header bytes of a new batch of ``count`` contiguous ``records``, with base offset 0."""
    covered = _COVERED.pack(
        attributes, count - 1, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count
    )
    crc = crc32c.crc32c(records, crc32c.crc32c(covered))
    return _LEAD.pack(0, HEADER_BYTES - LENGTH_END + len(records), -1, MAGIC, crc) + covered
