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
                  append time and goes for all records | bit 4 transactional | bit 5 control
                  | bit 6 the base timestamp holds the delete horizon (KIP-534)
    records    := record* , compressed as a whole by the codec (flows/batch/records.py has their grammar)

A fetched blob is batch*, the last of which may be cut off. MessageSets, the formats before Kafka 0.11 (magic 0 and 1),
have their magic byte at the same place and are refused.

Rules from org.apache.kafka.common.record.DefaultRecordBatch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import crc32c

HEADER_BYTES = 61
LENGTH_END = 12  # the length field counts the bytes after this place
CRC_START = 21  # what the CRC covers begins here
MAGIC = 2
NO_PRODUCER = -1

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20

_HEADER = struct.Struct(">qiibIhiqqqhii")
_COVERED = struct.Struct(">hiqqqhii")
_LEAD = struct.Struct(">qiibI")
_LENGTH_TO_MAGIC = struct.Struct(">iib")  # at byte 8


class CorruptBatchError(Exception):
    """Bytes that are not what the grammar says; the sentence tells where."""


class OldFormatError(Exception):
    """A MessageSet, from before Kafka 0.11."""


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
        """Compaction took records out, so that offsets inside are not contiguous."""
        return self.record_count != self.last_offset_delta + 1


def batches(blob: bytes | memoryview, *, check_crcs: bool) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The whole batches of a fetched blob with their bytes; one cut off at the end is left out.

    Raises CorruptBatchError (a length that cannot be, a CRC that does not fit) and OldFormatError, both after the
    batches before the bad one were given out.
    """
    view = memoryview(blob)
    end = len(view)
    at = 0
    while at + HEADER_BYTES <= end:
        length, _, magic = _LENGTH_TO_MAGIC.unpack_from(view, at + 8)
        if magic != MAGIC:
            raise _wrong_magic(view, at, magic)
        if length < HEADER_BYTES - LENGTH_END:
            raise CorruptBatchError(f"batch at offset {_base_offset(view, at)}: a length of {length} bytes cannot be")
        until = at + LENGTH_END + length
        if until > end:
            return
        header = BatchHeader._make(_HEADER.unpack_from(view, at))
        if check_crcs and crc32c.crc32c(view[at + CRC_START : until]) != header.crc:
            raise CorruptBatchError(f"batch at offset {header.base_offset}: its CRC does not fit its {length} bytes")
        yield header, view[at:until]
        at = until


def lead(base_offset: int, covered: bytes, records: bytes | memoryview) -> bytes:
    """The 61 header bytes around ``covered`` (see ``covered``): length and CRC are computed here."""
    crc = crc32c.crc32c(records, crc32c.crc32c(covered))
    return _LEAD.pack(base_offset, HEADER_BYTES - LENGTH_END + len(records), -1, MAGIC, crc) + covered


def covered(
    *,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    count: int,
) -> bytes:
    """The header fields the CRC covers, as bytes."""
    return _COVERED.pack(
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )


def _base_offset(view: memoryview, at: int) -> int:
    return int.from_bytes(view[at : at + 8], "big", signed=True)


def _wrong_magic(view: memoryview, at: int, magic: int) -> Exception:
    offset = _base_offset(view, at)
    if magic in (0, 1):
        return OldFormatError(
            f"offset {offset} is stored in message format v{magic}, from before Kafka 0.11, which is not copied; write "
            "the topic anew in the present format, or let retention remove these records"
        )
    return CorruptBatchError(f"batch at offset {offset}: magic {magic} is no format known")
