"""Decoding of fetched bytes into records, for the small topics that the control plane reads."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.memory_records import MemoryRecords

from mm2.core.naming.names import TopicPartition
from mm2.kafka.decompression import OutputTooLargeError, decompress
from mm2.kafka.errors import BrokerError
from mm2.kafka.protocol.error_codes import ErrorCode

MAX_UNCOMPRESSED = 16 * 1024 * 1024
"""Uncompressed bytes that are read from one partition at a time. Kafka Connect's producers and ours, which write these
topics, accept records of at most 1 MiB by default."""

MAX_RECORDS = 100_000
"""Records of one batch. With the headers they take at most 100 MB as objects, and honest ones are larger than the 160
bytes that remain for each."""

MAX_HEADERS = 1_000
"""Headers of one record. Ours, Connect's and dead letters have less than twenty."""

_QUICK_BYTES = 1 << 20
"""Up to this size a batch is decoded by aiokafka, which is quick and does not count: it then takes at most 35 MB."""

_SHORTEST = 14  # length of a message in format 0 with neither key nor value
_LENGTH_AT, _LENGTH_END, _MAGIC_AT = 8, 12, 16
_NEWEST_MAGIC = 2
_HEADER_BYTES = 61  # of a batch
_OFFSET = struct.Struct(">q")
_TIMESTAMPS = struct.Struct(">qq")  # base and max timestamp
_TIMESTAMPS_AT = 27
_COUNT_AT = 57
_LOG_APPEND_TIME = 0x08
_LAST_SHIFT = 63  # of a number of 10 bytes
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
    """One record of a topic; timestamp in epoch ms.

    ``problem``: why the batch at this offset cannot be read. The record then stands for all that it may contain, and
    has neither key nor value.
    """

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...] = ()
    problem: str | None = None


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
    next fetch. At most MAX_UNCOMPRESSED bytes are decompressed; batches beyond that are left for the next fetch.

    A batch with a correct checksum that cannot be read, or is larger than an honest one, is returned as one record
    with a ``problem``, which the callers skip, count and log: whatever is stored, reading continues behind it.
    Raises BrokerError: CORRUPT_MESSAGE if the first batch has a wrong checksum, or no batch is there.
    """
    found: list[Written | Ended] = []
    room = MAX_UNCOMPRESSED
    view = memoryview(message_set)
    end = 0
    try:
        batches = MemoryRecords(message_set)
        if len(view) >= _LENGTH_END and (length := _INT.unpack_from(view, _LENGTH_AT)[0]) < _SHORTEST:
            raise ValueError(f"invalid length {length}")  # noqa: TRY301
        while batches.has_next():
            batch = batches.next_batch()
            begin, end = end, end + _LENGTH_END + _INT.unpack_from(view, end + _LENGTH_AT)[0]
            if view[begin + _MAGIC_AT] > _NEWEST_MAGIC:
                raise ValueError(f"unknown magic {view[begin + _MAGIC_AT]}")  # noqa: TRY301
            if not batch.validate_crc():
                raise ValueError("wrong checksum")  # noqa: TRY301
            try:
                one, size = _read(batch, view[begin:end], partition, position, room)
            except OutputTooLargeError:
                break  # after others: left for the next fetch
            room -= size
            found.append(one)
            position = max(position, one.end)
    except Exception as error:  # aiokafka raises many: CorruptRecordException, SystemError, struct.error
        if not found:
            what = f"read {partition} at offset {position}"
            raise BrokerError(ErrorCode.CORRUPT_MESSAGE, what, str(error) or repr(error)) from error
    return found, position


def _read(
    batch: Any, raw: memoryview, partition: TopicPartition, position: int, room: int
) -> tuple[Written | Ended, int]:
    """Return a batch, and its uncompressed bytes.

    Raises OutputTooLargeError if it does not fit into ``room``, unless it never will.
    """
    is_old = raw[_MAGIC_AT] < 2  # has neither control batches nor transactions
    end = _OFFSET.unpack_from(raw)[0] + 1 if is_old else batch.next_offset
    size, number = 0, partition.partition
    try:
        if is_old:
            size = _size_of_old(raw, room)
            records = [_stored(record, number) for record in batch]
        else:
            header, data = _uncompressed(raw, room)
            size = len(data)
            records = _records(header, data, number)
            if batch.is_control_batch:
                return Ended(batch.producer_id, end, _committed(records)), size
        records = [record for record in records if record.offset >= position]
    except OutputTooLargeError as error:
        if room < MAX_UNCOMPRESSED:
            raise
        records = _unreadable(raw, partition, position, end, error)
    except Exception as error:  # noqa: BLE001 as in read_batches
        records = _unreadable(raw, partition, position, end, error)
    return Written(
        records, max(position, end), None if is_old or not batch.is_transactional else batch.producer_id
    ), size


def _unreadable(
    raw: memoryview, partition: TopicPartition, position: int, end: int, error: Exception
) -> list[StoredRecord]:
    if end <= position:
        return []
    offset = max(position, _OFFSET.unpack_from(raw)[0])
    problem = f"the batch cannot be read: {str(error) or repr(error)}"
    return [
        StoredRecord(partition=partition.partition, offset=offset, key=None, value=None, timestamp=-1, problem=problem)
    ]


def _size_of_old(raw: memoryview, limit: int) -> int:
    """Return the uncompressed bytes of a compressed message in format 0 or 1; 0: it is not compressed.

    aiokafka decompresses it without a limit.
    """
    codec = raw[_MESSAGE_ATTRIBUTES_AT] & _CODEC_MASK
    if not codec:
        return 0
    at = _MESSAGE_KEY_AT[raw[_MAGIC_AT]]
    at += _INT.size + max(0, _INT.unpack_from(raw, at)[0])  # the key
    return len(decompress(codec, raw[at + _INT.size :], limit))


def _uncompressed(raw: memoryview, limit: int) -> tuple[bytes, bytes]:
    """Return header and records of a batch, with the header of an uncompressed one."""
    (attributes,) = _ATTRIBUTES.unpack_from(raw, _ATTRIBUTES_AT)
    records = decompress(attributes & _CODEC_MASK, raw[_HEADER_BYTES:], limit)
    header = bytearray(raw[:_HEADER_BYTES])
    _ATTRIBUTES.pack_into(header, _ATTRIBUTES_AT, attributes & ~_CODEC_MASK)
    return bytes(header), records


def _records(header: bytes, data: bytes, number: int) -> list[StoredRecord]:
    """Return the records of a batch. Raises what aiokafka raises, and ValueError, IndexError."""
    count = _INT.unpack_from(header, _COUNT_AT)[0]
    if not 0 <= count <= MAX_RECORDS:
        raise ValueError(f"{count} records; at most {MAX_RECORDS} are read")
    if len(data) <= _QUICK_BYTES:
        try:
            return [_stored(record, number) for record in DefaultRecordBatch(header + data)]
        except UnicodeDecodeError:
            pass  # names of headers are decoded with replacements, as in Java
    return _read_carefully(header, data, count, number)


def _read_carefully(header: bytes, data: bytes, count: int, number: int) -> list[StoredRecord]:
    """Do the same in Python: slowly, but without more memory than honest records take.

    The grammar is that of org.apache.kafka.common.record.DefaultRecord.
    """
    base_offset = _OFFSET.unpack_from(header)[0]
    base_timestamp, max_timestamp = _TIMESTAMPS.unpack_from(header, _TIMESTAMPS_AT)
    is_append_time = header[_ATTRIBUTES_AT + 1] & _LOG_APPEND_TIME
    records: list[StoredRecord] = []
    at = 0
    for _ in range(count):
        length, start = _varint(data, at)
        timestamp, at = _varint(data, start + 1)
        offset, at = _varint(data, at)
        key, at = _bytes(data, at)
        value, at = _bytes(data, at)
        headers, at = _varint(data, at)
        if not 0 <= headers <= MAX_HEADERS:
            raise ValueError(f"{headers} headers; at most {MAX_HEADERS} are read")
        found = []
        for _ in range(headers):
            name, at = _bytes(data, at)
            content, at = _bytes(data, at)
            found.append(((name or b"").decode(errors="replace"), content))
        if at != start + length:
            raise ValueError(f"{at - start} bytes in a record of {length}")
        records.append(
            StoredRecord(
                partition=number,
                offset=base_offset + offset,
                key=key,
                value=value,
                timestamp=max_timestamp if is_append_time else base_timestamp + timestamp,
                headers=tuple(found),
            )
        )
    if at != len(data):
        raise ValueError(f"{len(data) - at} bytes after the last record")
    return records


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the zigzag number at ``at``, and where it ends. Raises IndexError, and ValueError if it is too long."""
    value = shift = 0
    while (byte := data[at]) > 0x7F:
        value |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if shift > _LAST_SHIFT:
            raise ValueError("a number of more than 10 bytes")
    value |= byte << shift
    return (value >> 1) ^ -(value & 1), at + 1


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = _varint(data, at)
    if length < 0:
        return None, at
    if length > len(data) - at:
        raise ValueError(f"{length} bytes at {at} of {len(data)}")
    return data[at : at + length], at + length


def _committed(records: Sequence[StoredRecord]) -> bool | None:
    for record in records:
        return record.key is not None and _CONTROL_KEY.unpack_from(record.key)[1] != _ABORT
    return None


def _stored(record: Any, partition: int) -> StoredRecord:
    return StoredRecord(
        partition=partition,
        offset=record.offset,
        key=record.key,
        value=record.value,
        timestamp=record.timestamp if record.timestamp is not None else -1,
        headers=tuple(record.headers),
    )
