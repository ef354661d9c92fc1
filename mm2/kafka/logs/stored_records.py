"""Decoding of fetched bytes into records, for the small topics that the control plane reads."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.memory_records import MemoryRecords

from mm2.core.naming.names import TopicPartition
from mm2.kafka.decompression import DecompressionError, OutputTooLargeError, decompress
from mm2.kafka.errors import BrokerError
from mm2.kafka.protocol.error_codes import ErrorCode

MAX_UNCOMPRESSED = 16 * 1024 * 1024
"""Uncompressed bytes that are read from one partition at a time. Kafka Connect's producers and ours, which write these
topics, accept records of at most 1 MiB by default."""

_LENGTH_AT, _LENGTH_END, _MAGIC_AT = 8, 12, 16
_HEADER_BYTES = 61  # of a batch
_ATTRIBUTES = struct.Struct(">h")
_ATTRIBUTES_AT = 21
_CODEC_MASK = 0x07
_MESSAGE_ATTRIBUTES_AT = 17  # of message formats 0 and 1
_MESSAGE_KEY_AT = (18, 26)
_INT = struct.Struct(">i")
_CONTROL_KEY = struct.Struct(">hh")  # version, type
_ABORT = 0  # type of a transaction's abort marker; commit is 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecord:
    """One record of a topic; timestamp in epoch ms."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """The records of one batch, which ends before offset ``end``.

    ``transaction_of`` is the producer ID of its transaction; None: not in a transaction.
    """

    records: list[StoredRecord]
    end: int
    transaction_of: int | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """The marker before offset ``end`` that ended the transaction of a producer ID.

    ``committed`` None: the marker was compacted away, as were all records of the transaction.
    """

    transaction_of: int
    end: int
    committed: bool | None


def decode(
    message_set: bytes,
    partition: TopicPartition,
    position: int,
    *,
    aborted: Sequence[tuple[int, int]] = (),
    committed_only: bool = False,
) -> tuple[list[StoredRecord], int]:
    """Return the records at or after ``position``, and the offset to continue from, as `read_batches`.

    ``aborted`` are (producer id, first offset): records of that producer from there to its abort marker are omitted if
    ``committed_only``.
    """
    records: list[StoredRecord] = []
    pending = sorted(aborted, key=lambda one: one[1], reverse=True)
    aborting: set[int] = set()
    found, position = read_batches(message_set, partition, position)
    for one in found:
        while pending and pending[-1][1] < one.end:
            aborting.add(pending.pop()[0])
        if isinstance(one, Ended):
            if one.committed is False:
                aborting.discard(one.transaction_of)
        elif not (committed_only and one.transaction_of in aborting):
            records += one.records
    return records, position


def read_batches(message_set: bytes, partition: TopicPartition, position: int) -> tuple[list[Written | Ended], int]:
    """Return the batches with their records at or after ``position``, and the offset to continue from.

    That offset skips control batches and gaps left by compaction. A batch that is cut off at the end is left for the
    next fetch. At most MAX_UNCOMPRESSED bytes are decompressed; batches beyond that are left for the next fetch. Raises
    BrokerError: CORRUPT_MESSAGE on a wrong checksum or damaged compression, and MESSAGE_TOO_LARGE if the first batch
    alone has more uncompressed bytes.
    """
    found: list[Written | Ended] = []
    room = MAX_UNCOMPRESSED
    end = 0
    view = memoryview(message_set)
    batches = MemoryRecords(message_set)
    while batches.has_next():
        batch = batches.next_batch()
        begin, end = end, end + _LENGTH_END + _INT.unpack_from(view, end + _LENGTH_AT)[0]
        what = f"read {partition} at offset {position}"
        if not batch.validate_crc():
            raise BrokerError(ErrorCode.CORRUPT_MESSAGE, what, "wrong checksum")
        try:
            uncompressed, size = _uncompressed(view[begin:end], room)
        except OutputTooLargeError as error:
            if room < MAX_UNCOMPRESSED:
                break
            raise BrokerError(ErrorCode.MESSAGE_TOO_LARGE, what, str(error)) from None
        except DecompressionError as error:
            raise BrokerError(ErrorCode.CORRUPT_MESSAGE, what, str(error)) from error
        batch, room = uncompressed or batch, room - size
        if getattr(batch, "magic", 1) < 2:  # message formats 0 and 1 have neither control batches nor transactions
            records = [_stored(record, partition.partition) for record in batch if record.offset >= position]
            position = records[-1].offset + 1 if records else position
            found.append(Written(records, position))
            continue
        if batch.is_control_batch:
            found.append(Ended(batch.producer_id, batch.next_offset, _committed(batch)))
        else:
            records = [_stored(record, partition.partition) for record in batch if record.offset >= position]
            producer_id = batch.producer_id if batch.is_transactional else None
            found.append(Written(records, batch.next_offset, producer_id))
        position = max(position, batch.next_offset)
    return found, position


def _uncompressed(raw: memoryview, limit: int) -> tuple[DefaultRecordBatch | None, int]:
    """Return a compressed batch as an uncompressed one, and the bytes of its records; None if it can be read as it is.

    aiokafka decompresses without a limit. For formats 0 and 1 the size is only checked.
    """
    magic = raw[_MAGIC_AT]
    if magic < 2:
        codec = raw[_MESSAGE_ATTRIBUTES_AT] & _CODEC_MASK
        if not codec:
            return None, 0
        at = _MESSAGE_KEY_AT[magic]
        at += _INT.size + max(0, _INT.unpack_from(raw, at)[0])  # the key
        return None, len(decompress(codec, raw[at + _INT.size :], limit))
    (attributes,) = _ATTRIBUTES.unpack_from(raw, _ATTRIBUTES_AT)
    codec = attributes & _CODEC_MASK
    if not codec:
        return None, 0
    records = decompress(codec, raw[_HEADER_BYTES:], limit)
    header = bytearray(raw[:_HEADER_BYTES])
    _ATTRIBUTES.pack_into(header, _ATTRIBUTES_AT, attributes & ~_CODEC_MASK)
    return DefaultRecordBatch(bytes(header) + records), len(records)


def _committed(batch: object) -> bool | None:
    for record in batch:  # type: ignore[attr-defined]
        return record.key is not None and _CONTROL_KEY.unpack_from(record.key)[1] != _ABORT
    return None


def _stored(record: object, partition: int) -> StoredRecord:
    return StoredRecord(
        partition=partition,
        offset=record.offset,  # type: ignore[attr-defined]
        key=record.key,  # type: ignore[attr-defined]
        value=record.value,  # type: ignore[attr-defined]
        timestamp=record.timestamp if record.timestamp is not None else -1,  # type: ignore[attr-defined]
        headers=tuple(record.headers),  # type: ignore[attr-defined]
    )
