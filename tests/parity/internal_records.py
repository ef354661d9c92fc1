"""Contents of internal topics: decoded by mm2's own readers, and as raw bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.connect_offsets import SourceKey, decode_key, decode_offset
from mm2.core.wire.formats import OffsetSync
from tests.lab.history import Partitions, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A record of an internal topic: its partition there, its bytes, headers and timestamp (ms)."""

    partition: int
    key: bytes
    value: bytes
    headers: int
    timestamp_ms: int


def stored(partitions: Partitions) -> Iterator[Stored]:
    """Yield all records of an internal topic. Neither mm2 nor Java writes null keys or values there."""
    for records in partitions.values():
        for record in records:
            key, value, headers, timestamp_ms = record.content
            assert key is not None
            assert value is not None
            yield Stored(
                partition=record.partition, key=key, value=value, headers=len(headers), timestamp_ms=timestamp_ms
            )


def since(later: Partitions, earlier: Partitions) -> dict[int, list[Record]]:
    """Return the records of ``later`` that are not in ``earlier``; both were read from the same topic."""
    known = {number: len(records) for number, records in earlier.items()}
    return {number: list(records[known.get(number, 0) :]) for number, records in later.items()}


def positions(offsets: Partitions) -> dict[TopicPartition, int]:
    """Return the source position of each partition, as a node reads it from mm2-offsets."""
    found: dict[TopicPartition, int] = {}
    for one in stored(offsets):
        key, offset = decode_key(one.key), decode_offset(one.value)
        if isinstance(key, SourceKey) and offset is not None and offset >= 0:  # Java stores -1 for no offset
            found[TopicPartition(key.topic, key.partition)] = offset + 1
    return found


def syncs(partitions: Partitions) -> list[tuple[OffsetSync, int]]:
    """Return offset syncs in the order they were written, with their timestamps (ms)."""
    return [(OffsetSync.decode(one.key, one.value), one.timestamp_ms) for one in stored(partitions)]
