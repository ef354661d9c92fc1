"""How far each source partition is copied, read from ``mm2-offsets.<source>.internal`` on the target."""

from __future__ import annotations

import asyncio
from collections import Counter

from mm2.core.client_settings import IsolationLevel
from mm2.core.connect_offsets import SourceKey, decode_key, decode_offset
from mm2.core.formats import FormatError
from mm2.core.names import Flow, TopicPartition
from mm2.kafka.cluster import Cluster
from mm2.kafka.compacted_log import CompactedLog
from mm2.node.skipped_records import SkippedRecords


class SourceOffsets:
    """The fold of the offsets topic for one source cluster; Java's records and ours alike (mm2-compat §2.3).
    ``partitions`` is how many the topic really has.

    Invariants: (A) a position is never older than what was committed in the topic when `refresh` was last called.
    (B) What an aborted transaction wrote does not count: the records it speaks of are aborted too.
    """

    def __init__(self, cluster: Cluster, topic: str, flow: Flow, *, partitions: int) -> None:
        self.partitions = partitions
        self._source_alias = flow.source
        self._log = CompactedLog(cluster, topic, isolation=IsolationLevel.READ_COMMITTED, purpose="source offsets")
        self._positions: dict[TopicPartition, int | None] = {}
        self._beginnings: Counter[TopicPartition] = Counter()
        self._skipped = SkippedRecords(flow, topic)
        self._reading = asyncio.Lock()

    async def refresh(self) -> None:
        """Read what was written since the last time. Raises ClusterError."""
        async with self._reading:
            async for record in self._log.read_to_end():
                try:
                    key = decode_key(record.key)
                    if isinstance(key, SourceKey) and key.cluster == self._source_alias:
                        self._take(TopicPartition(key.topic, key.partition), decode_offset(record.value))
                except FormatError as error:
                    self._skipped.skip(record, error)

    def _take(self, partition: TopicPartition, offset: int | None) -> None:
        self._positions[partition] = None if offset is None else max(0, offset + 1)
        if offset is not None and offset < 0:
            self._beginnings[partition] += 1

    def position(self, partition: TopicPartition) -> int | None:
        """The next source offset to copy; None: nothing is stored, auto.offset.reset decides.

        0 also where -1 is stored, which to Java is the same as nothing: we write it of topics made anew (C of
        `flows.offsets`), whose beginning is wanted whatever auto.offset.reset says.
        """
        return self._positions.get(partition)

    def beginnings(self, partition: TopicPartition) -> int:
        """How often a lane stored that it begins with a topic made anew, as far as that was read."""
        return self._beginnings[partition]
