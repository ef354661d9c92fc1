"""Record batches as brokers store them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import crc32c
from aiokafka.record.default_records import DefaultRecordBatchBuilder

_CRC_AT, _ATTRIBUTES_AT = 17, 21
_CONTROL = 0b10_0000


def batch(
    base_offset: int,
    values: Sequence[bytes | None],
    *,
    key: bytes | None = b"k",
    timestamp: int = 1_000,
    codec: int = 0,
    producer: int = -1,
    transactional: bool | None = None,
    attributes: int = 0,
) -> bytes:
    """One RecordBatch v2. With a ``producer`` it is transactional by default."""
    in_transaction = producer >= 0 if transactional is None else transactional
    builder = DefaultRecordBatchBuilder(2, codec, int(in_transaction), producer, 0, 0, 1 << 20)
    for index, value in enumerate(values):
        builder.append(index, timestamp, key, value, [])
    raw = bytearray(builder.build())
    struct.pack_into(">q", raw, 0, base_offset)
    (found,) = struct.unpack_from(">h", raw, _ATTRIBUTES_AT)
    struct.pack_into(">h", raw, _ATTRIBUTES_AT, found | attributes)
    struct.pack_into(">I", raw, _CRC_AT, crc32c.crc32c(bytes(raw[_ATTRIBUTES_AT:])))
    return bytes(raw)


def control_batch(offset: int, *, producer: int, commit: bool) -> bytes:
    """The marker that ends a transaction."""
    marker = struct.pack(">hh", 0, 1 if commit else 0)
    return batch(offset, [struct.pack(">hi", 0, 0)], key=marker, producer=producer, attributes=_CONTROL)
