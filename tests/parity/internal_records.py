"""What stands in the internal topics, by our own readers, with the bytes it stands in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mm2.core.connect_offsets import SourceKey, decode_key, decode_offset
from mm2.core.formats import OffsetSync
from mm2.core.names import TopicPartition
from tests.lab.history import Partitions, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One record: ``partition`` of the internal topic, its bytes, headers and timestamp (ms)."""

    partition: int
    key: bytes
    value: bytes
    headers: int
    timestamp_ms: int


def stored(partitions: Partitions) -> Iterator[Stored]:
    """All records of an internal topic; none of ours and Java's has a null key or value."""
    for records in partitions.values():
        for record in records:
            key, value, headers, timestamp_ms = record.content
            assert key is not None
            assert value is not None
            yield Stored(
                partition=record.partition, key=key, value=value, headers=len(headers), timestamp_ms=timestamp_ms
            )


def since(later: Partitions, earlier: Partitions) -> dict[int, list[Record]]:
    """The records of ``later`` that are not in ``earlier``, a reading of the same topic."""
    known = {number: len(records) for number, records in earlier.items()}
    return {number: list(records[known.get(number, 0) :]) for number, records in later.items()}


def positions(offsets: Partitions) -> dict[TopicPartition, int]:
    """The source position of each partition, as a node reads it from mm2-offsets."""
    found: dict[TopicPartition, int] = {}
    for one in stored(offsets):
        key, offset = decode_key(one.key), decode_offset(one.value)
        if isinstance(key, SourceKey) and offset is not None and offset >= 0:  # Java's -1: nothing is stored
            found[TopicPartition(key.topic, key.partition)] = offset + 1
    return found


def syncs(partitions: Partitions) -> list[tuple[OffsetSync, int]]:
    """Offset syncs in the order they were written, with their timestamps (ms)."""
    return [(OffsetSync.decode(one.key, one.value), one.timestamp_ms) for one in stored(partitions)]
