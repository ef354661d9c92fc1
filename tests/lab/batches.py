"""Record batches without a broker: built and read by aiokafka's record classes, which the program does not use."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c

HEADER = struct.Struct(">qiibIhiqqqhii")
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40
ABORT, COMMIT = 0, 1

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """A record as a consumer receives it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A batch as a broker would store it. ``base_offset`` None: the first record's. ``next_offset`` None: after the
    last record; more, if compaction removed records at the end."""

    records: Sequence[Record]
    codec: int = 0
    base_offset: int | None = None
    next_offset: int | None = None
    attributes: int = 0
    producer: tuple[int, int, int] = (-1, -1, -1)
    max_timestamp: int | None = None
    fields: dict[str, int] = field(default_factory=dict)

    def encode(self) -> bytes:
        first = self.base_offset if self.base_offset is not None else self.records[0].offset
        builder = DefaultRecordBatchBuilder(2, self.codec, 0, *self.producer, 1 << 30)
        for record in self.records:
            builder.append(record.offset - first, record.timestamp, record.key, record.value, list(record.headers))
        raw = bytearray(builder.build())
        fields = list(HEADER.unpack_from(raw))
        fields[0] = first
        fields[5] |= self.attributes
        if self.next_offset is not None:
            fields[6] = self.next_offset - first - 1
        if self.max_timestamp is not None:
            fields[8] = self.max_timestamp
        if not self.records:
            fields[7] = fields[8] = -1
        return sealed(raw, fields)


def sealed(raw: bytearray, fields: Sequence[int]) -> bytes:
    """The batch with these header fields and a CRC that fits."""
    HEADER.pack_into(raw, 0, *fields)
    struct.pack_into(">I", raw, 17, calc_crc32c(bytes(raw[21:])))
    return bytes(raw)


def marker(offset: int, producer_id: int, kind: int) -> bytes:
    """A transaction marker: ABORT or COMMIT."""
    record = Record(offset, 0, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))
    return Batch(records=[record], attributes=TRANSACTIONAL | CONTROL, producer=(producer_id, 0, -1)).encode()


def read(blob: bytes) -> list[Record]:
    """Every record of a blob of batches, as aiokafka decodes it."""
    records: list[Record] = []
    memory = MemoryRecords(bytes(blob))
    while (batch := memory.next_batch()) is not None:
        assert batch.validate_crc()
        records += [Record(one.offset, one.timestamp, one.key, one.value, tuple(one.headers)) for one in batch]
    return records
