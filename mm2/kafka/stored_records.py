"""From the bytes of a fetch to records, for the small topics the control plane reads itself."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from aiokafka.record.memory_records import MemoryRecords

from mm2.core.names import TopicPartition
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import BrokerError

_CONTROL_KEY = struct.Struct(">hh")  # version, type
_ABORT = 0  # type of a transaction's abort marker; commit is 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecord:
    """One record as it lies in a topic; timestamp in epoch ms."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int


def decode(
    message_set: bytes,
    partition: TopicPartition,
    position: int,
    *,
    aborted: Sequence[tuple[int, int]] = (),
    committed_only: bool = False,
) -> tuple[list[StoredRecord], int]:
    """The records at or after ``position``, and the offset to go on from.

    That offset passes over control batches, aborted records and holes left by compaction. A batch cut off at the end
    is left for the next fetch. ``aborted`` are (producer id, first offset): records of that producer from there to its
    abort marker do not count when ``committed_only``. Raises BrokerError (CORRUPT_MESSAGE) on a wrong checksum.
    """
    records: list[StoredRecord] = []
    pending = sorted(aborted, key=lambda one: one[1], reverse=True)
    aborting: set[int] = set()
    batches = MemoryRecords(message_set)
    while batches.has_next():
        batch = batches.next_batch()
        if not batch.validate_crc():
            raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"read {partition} at offset {position}", "wrong checksum")
        if getattr(batch, "magic", 1) < 2:  # message formats 0 and 1 know neither control batches nor transactions
            for record in batch:
                if record.offset >= position:
                    records.append(_stored(record, partition.partition))
                    position = record.offset + 1
            continue
        while pending and pending[-1][1] < batch.next_offset:
            aborting.add(pending.pop()[0])
        if batch.is_control_batch:
            if _is_abort(batch):
                aborting.discard(batch.producer_id)
        elif not (committed_only and batch.is_transactional and batch.producer_id in aborting):
            records.extend(_stored(record, partition.partition) for record in batch if record.offset >= position)
        position = max(position, batch.next_offset)
    return records, position


def _is_abort(batch: object) -> bool:
    for record in batch:  # type: ignore[attr-defined]
        return record.key is not None and _CONTROL_KEY.unpack_from(record.key)[1] == _ABORT
    return False  # a control batch whose marker was compacted away


def _stored(record: object, partition: int) -> StoredRecord:
    return StoredRecord(
        partition=partition,
        offset=record.offset,  # type: ignore[attr-defined]
        key=record.key,  # type: ignore[attr-defined]
        value=record.value,  # type: ignore[attr-defined]
        timestamp=record.timestamp if record.timestamp is not None else -1,  # type: ignore[attr-defined]
    )
