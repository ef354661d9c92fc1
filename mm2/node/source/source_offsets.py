"""The stored position of each source partition, in ``mm2-offsets.<source>.internal`` on the target."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.offsets.connect_offsets import (
    RECREATED_TOPIC,
    SourceKey,
    decode_key,
    decode_offset,
    encode_key,
    encode_offset,
)
from mm2.core.settings.client import IsolationLevel
from mm2.core.wire.murmur2 import partition_of
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.logs.compacted_log import CompactedLog
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.kafka.logs.stored_records import StoredRecord
from mm2.kafka.retrying import API_TIMEOUT_MS
from mm2.node.store.skipped_records import SkippedRecords


class StoredSourceOffsets:
    """The newest offsets of one source cluster in the offsets topic, written by Java or by this release (KIP-382).

    ``source_alias`` is that of the source in the keys. ``partitions`` is the partition count of the topic.

    Invariants: (A) a position is never older than the offset committed in the topic when `refresh` was last called.
    (B) Records of aborted transactions are ignored: the records that they belong to are aborted, too.
    """

    def __init__(self, cluster: Cluster, topic: str, flow: Flow, *, source_alias: str, partitions: int) -> None:
        self.partitions = partitions
        self._source_alias = source_alias
        self._topic = topic
        self._log = CompactedLog(cluster, topic, isolation=IsolationLevel.READ_COMMITTED, purpose="source offsets")
        self._positions: dict[TopicPartition, int | None] = {}
        self._under_other_aliases: dict[str, set[TopicPartition]] = {}
        self._beginnings: Counter[TopicPartition] = Counter()
        self.skipped = SkippedRecords(flow, topic)
        self._reading = asyncio.Lock()

    async def refresh(self, *, timeout_ms: int = API_TIMEOUT_MS) -> None:
        """Read the records written since the last call. Raises ClusterError, also without progress for that long."""
        async with self._reading:
            async for record in self._log.read_to_end(timeout_ms=timeout_ms):
                self.skipped.take(record, self._take)

    def _take(self, record: StoredRecord) -> None:
        key = decode_key(record.key)
        if not isinstance(key, SourceKey):
            return
        offset = decode_offset(record.value)
        partition = TopicPartition(key.topic, key.partition)
        if key.cluster != self._source_alias:
            others = self._under_other_aliases.setdefault(key.cluster, set())
            (others.discard if offset is None else others.add)(partition)
            return
        self._positions[partition] = None if offset is None else max(0, offset + 1)
        if offset == RECREATED_TOPIC:
            self._beginnings[partition] += 1

    def position(self, partition: TopicPartition) -> int | None:
        """Return the next source offset to copy; None if no offset is stored, so that auto.offset.reset applies.

        The position is 0 if a negative offset is stored, which Java treats like a missing one: lanes store -1 for a
        partition that was empty at its start, and `RECREATED_TOPIC` for a recreated topic, and both are copied from the
        beginning regardless of auto.offset.reset.
        """
        return self._positions.get(partition)

    def is_missing(self, partition: TopicPartition) -> bool:
        """Return whether the topic has no record of the partition. A tombstone is one: it says where to start again."""
        return partition not in self._positions

    @property
    def topic(self) -> str:
        """The name of the topic."""
        return self._topic

    @property
    def stored(self) -> frozenset[TopicPartition]:
        """The source partitions with a stored offset."""
        return frozenset(one for one, position in self._positions.items() if position is not None)

    @property
    def under_other_aliases(self) -> Mapping[str, AbstractSet[TopicPartition]]:
        """The source partitions with an offset that is stored under another alias of the source, by that alias."""
        return self._under_other_aliases

    def beginnings(self, partition: TopicPartition) -> int:
        """Return how many times a lane has stored that it starts a recreated topic from the beginning."""
        return self._beginnings[partition]

    def records(self, positions: Mapping[TopicPartition, int | None]) -> dict[int, list[tuple[bytes, bytes | None]]]:
        """Return the records (key, value) that store these next source offsets, by partition of the topic.

        None is a tombstone: start again.
        """
        found: dict[int, list[tuple[bytes, bytes | None]]] = {}
        for one, position in positions.items():
            key = encode_key(SourceKey(cluster=self._source_alias, topic=one.topic, partition=one.partition))
            value = None if position is None else encode_offset(position - 1)
            found.setdefault(partition_of(key, self.partitions), []).append((key, value))
        return found

    async def store(self, producer: ControlProducer, positions: Mapping[TopicPartition, int]) -> None:
        """Store these next source offsets. Raises ClusterError."""
        writes = [
            producer.send(self._topic, number, key, value)
            for number, records in self.records(positions).items()
            for key, value in records
        ]
        await asyncio.gather(*writes)
