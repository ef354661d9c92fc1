"""``<source>.checkpoints.internal`` on the target: read at the start, written from then on, and read on where groups
came from other nodes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

from mm2.config.settings import FlowSettings
from mm2.core import internal_topics
from mm2.core.checkpoints import Checkpoints
from mm2.core.connect_offsets import CheckpointKey, encode_key, encode_offset
from mm2.core.formats import Checkpoint, FormatError
from mm2.core.murmur2 import partition_of
from mm2.core.names import TopicPartition
from mm2.kafka.cluster import Cluster
from mm2.kafka.compacted_log import CompactedLog
from mm2.kafka.control_producer import ControlProducer
from mm2.kafka.internal_topics import ensure_internal_topic
from mm2.node.checkpoint_tally import CheckpointTally
from mm2.node.skipped_records import SkippedRecords

NOTHING_MOVED_MS = 10_000
"""A topic that gives nothing for so long while it is read is told of."""

STEP_RECORDS = 200
"""Records made or read before the event loop gets its turn: about 5 ms."""

AT_ONCE = 5_000
"""Checkpoints that wait for the target at the same time: about 2 MB of the producer's 32."""


class CheckpointLog:
    """Invariant: a checkpoint is remembered as written only after the target has acknowledged it."""

    def __init__(
        self,
        settings: FlowSettings,
        checkpoints: Checkpoints,
        producer: ControlProducer,
        reader: Cluster,
        tally: CheckpointTally,
        *,
        offsets_partitions: int,
    ) -> None:
        self._settings = settings
        self._checkpoints = checkpoints
        self._producer = producer
        self._tally = tally
        self._offsets_partitions = offsets_partitions
        self._offset_stored: set[tuple[str, TopicPartition]] = set()
        self.topic = internal_topics.checkpoints(settings.policy, settings.flow)
        self.skipped = SkippedRecords(settings.flow, self.topic.name)
        self._log = CompactedLog(reader, self.topic.name, purpose="checkpoints")

    async def ensure(self, target: Cluster) -> None:
        """Create the topic unless it is there. Raises ClusterError."""
        await ensure_internal_topic(
            self._settings.admin_class(target),
            self.topic,
            replication_factor=self._settings.checkpoint.checkpoints_topic_replication_factor,
            timeout_ms=self._settings.checkpoint.admin_timeout_ms,
        )

    async def load(self) -> None:
        """Have the checkpoints remembered that were written since the last call, by whomever; by the first one those of
        earlier lives. Raises ClusterError."""
        read = 0
        async for record in self._log.read_to_end(timeout_ms=NOTHING_MOVED_MS):
            try:
                self._checkpoints.remember(Checkpoint.decode(record.key, record.value))
            except FormatError as error:
                self.skipped.skip(record, error)
            read += 1
            if read % STEP_RECORDS == 0:
                await asyncio.sleep(0)

    async def write(self, checkpoints: Sequence[Checkpoint], timestamp_ms: int) -> None:
        """Write, and have remembered, what the target acknowledges. ``timestamp_ms``: when the groups' offsets were
        read, which is what the latency counts from. Raises the first ClusterError, after all had their turn."""
        for start in range(0, len(checkpoints), AT_ONCE):
            some = checkpoints[start : start + AT_ONCE]
            stored = []
            async for checkpoint in _paced(some):
                key, value = checkpoint.key(), checkpoint.value()
                stored.append(self._producer.send(self.topic.name, 0, key, value, timestamp_ms=timestamp_ms))
            results = await asyncio.gather(*stored, return_exceptions=True)
            seconds = time.time() - timestamp_ms / 1000
            written = [one for one, result in zip(some, results, strict=True) if not isinstance(result, BaseException)]
            for checkpoint in written:
                self._checkpoints.remember(checkpoint)
                self._tally.acknowledged(checkpoint.group, seconds)
            await self._store_offsets(written)
            _raise_first(results)

    async def _store_offsets(self, written: Sequence[Checkpoint]) -> None:
        """Java's worker stores offset 0 for each group and remote partition that has a checkpoint. It does so with
        every flush; the record is always the same, so that once in a task's life tells as much."""
        topic = self._settings.storage.offsets.name
        stored = []
        new = [one for one in written if (one.group, one.topic_partition) not in self._offset_stored]
        async for checkpoint in _paced(new):
            remote = checkpoint.topic_partition
            key = encode_key(CheckpointKey(group=checkpoint.group, topic=remote.topic, partition=remote.partition))
            partition = partition_of(key, self._offsets_partitions)
            stored.append(self._producer.send(topic, partition, key, encode_offset(0)))
        results = await asyncio.gather(*stored, return_exceptions=True)
        for checkpoint, result in zip(new, results, strict=True):
            if not isinstance(result, BaseException):
                self._offset_stored.add((checkpoint.group, checkpoint.topic_partition))
        _raise_first(results)


async def _paced(checkpoints: Sequence[Checkpoint]) -> AsyncIterator[Checkpoint]:
    for count, checkpoint in enumerate(checkpoints, 1):
        yield checkpoint
        if count % STEP_RECORDS == 0:
            await asyncio.sleep(0)


def _raise_first(results: Sequence[object]) -> None:
    for result in results:
        if isinstance(result, BaseException):
            raise result
