"""``<source>.checkpoints.internal`` on the target: read at the start, then written, and read again when groups move to
this node."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from mm2.config.settings import FlowSettings
from mm2.core.lanes.counters import Histogram, HistogramTotals
from mm2.core.naming import internal_topics
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.checkpoints import Checkpoints
from mm2.core.offsets.connect_offsets import CheckpointKey, encode_key, encode_offset
from mm2.core.wire.formats import Checkpoint
from mm2.core.wire.murmur2 import partition_of
from mm2.kafka.admin.internal_topics import ensure_internal_topic
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.logs.compacted_log import CompactedLog
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.kafka.logs.stored_records import StoredRecord
from mm2.node.status.monotonic_counters import MonotonicCounters
from mm2.node.status.status_model import Latency
from mm2.node.store.skipped_records import SkippedRecords

_NONE = Latency()


class CheckpointMetrics:
    """Totals over all successive runs of the checkpoint task."""

    def __init__(self) -> None:
        self._latency: dict[str, Latency] = {}
        self._latencies = Histogram()
        self._skipped: MonotonicCounters[str] = MonotonicCounters()
        self._topics: set[str] = set()
        self._runs = 0

    def begin(self) -> str:
        """Return a name for the next run of the task, whose counters start at 0."""
        self._runs += 1
        return f"run {self._runs}"

    def acknowledged(self, group: str, seconds: float) -> None:
        """Record that a checkpoint of ``group`` was acknowledged ``seconds`` after its timestamp."""
        seconds = max(0.0, seconds)
        so_far = self._latency.get(group, _NONE)
        self._latency[group] = Latency(count=so_far.count + 1, seconds=so_far.seconds + seconds)
        self._latencies.observe(seconds)

    def keep(self, groups: Collection[str]) -> None:
        """Forget all other groups, so that names that are no longer used do not accumulate."""
        self._latency = {group: latency for group, latency in self._latency.items() if group in groups}

    def skipped(self, run: str, counts: Mapping[str, int]) -> None:
        """Record how many records the task named ``run`` has skipped so far, by topic."""
        for topic, count in counts.items():
            self._topics.add(topic)
            self._skipped.fold(topic, run, (count,))

    @property
    def latency_by_group(self) -> Mapping[str, Latency]:
        """The latency of each group, as a copy for other threads."""
        return self._latency.copy()

    @property
    def latencies(self) -> HistogramTotals:
        """The latencies of all groups since the node started, including those that no longer exist."""
        return self._latencies.totals

    @property
    def skipped_by_topic(self) -> Mapping[str, int]:
        """The number of skipped records by topic, including 0, so that metrics show the first increase."""
        return {topic: int(self._skipped.get(topic, (0,))[0]) for topic in sorted(self._topics)}


NOTHING_MOVED_MS = 10_000
"""If no record arrives for this long, reading the topic is reported as stalled."""

STEP_RECORDS = 200
"""Records written or read before yielding to the event loop: about 5 ms."""

AT_ONCE = 5_000
"""Maximum number of checkpoints in flight: about 2 MB of the producer's 32 MB."""


class CheckpointLog:
    """Reads and writes the checkpoints topic.

    Invariant: a checkpoint counts as written only after the target has acknowledged it.
    """

    def __init__(
        self,
        settings: FlowSettings,
        checkpoints: Checkpoints,
        producer: ControlProducer,
        reader: Cluster,
        checkpoint_metrics: CheckpointMetrics,
        *,
        offsets_partitions: int,
    ) -> None:
        self._settings = settings
        self._checkpoints = checkpoints
        self._producer = producer
        self._checkpoint_metrics = checkpoint_metrics
        self._offsets_partitions = offsets_partitions
        self._offset_stored: set[tuple[str, TopicPartition]] = set()
        self.topic = internal_topics.checkpoints(settings.policy, settings.aliases)
        self.skipped = SkippedRecords(settings.flow, self.topic.name)
        self._log = CompactedLog(reader, self.topic.name, purpose="checkpoints")

    async def ensure(self, target: Cluster) -> None:
        """Create the topic unless it exists. Raises ClusterError."""
        await ensure_internal_topic(
            self._settings.admin_class(target),
            self.topic,
            replication_factor=self._settings.checkpoint.checkpoints_topic_replication_factor,
            timeout_ms=self._settings.checkpoint.admin_timeout_ms,
        )

    async def load(self) -> None:
        """Read the checkpoints that any node wrote since the last call; the first call reads the whole topic.

        Raises ClusterError.
        """

        def take(record: StoredRecord) -> None:
            self._checkpoints.remember(Checkpoint.decode(record.key, record.value))

        await self.skipped.apply(self._log.read_to_end(timeout_ms=NOTHING_MOVED_MS), take, step=STEP_RECORDS)

    async def write(self, checkpoints: Sequence[Checkpoint], timestamp_ms: int) -> None:
        """Write checkpoints, and remember those that the target acknowledges.

        ``timestamp_ms`` is when the groups' offsets were read, from which the latency is measured. Raises the first
        ClusterError, after all checkpoints of a chunk were tried.
        """
        for start in range(0, len(checkpoints), AT_ONCE):
            written, error = await _send(
                checkpoints[start : start + AT_ONCE],
                lambda one: self._producer.send(self.topic.name, 0, one.key(), one.value(), timestamp_ms=timestamp_ms),
            )
            seconds = time.time() - timestamp_ms / 1000
            for checkpoint in written:
                self._checkpoints.remember(checkpoint)
                self._checkpoint_metrics.acknowledged(checkpoint.group, seconds)
            await self._store_offsets(written)
            if error is not None:
                raise error

    async def _store_offsets(self, written: Sequence[Checkpoint]) -> None:
        """Store offset 0 for each group and remote partition that has a checkpoint, as Java's worker does.

        Java repeats it with every flush; as the record never changes, it is written here once per task.
        """
        new = [one for one in written if (one.group, one.topic_partition) not in self._offset_stored]
        stored, error = await _send(new, self._send_offset)
        self._offset_stored.update((one.group, one.topic_partition) for one in stored)
        if error is not None:
            raise error

    def _send_offset(self, checkpoint: Checkpoint) -> Awaitable[int]:
        remote = checkpoint.topic_partition
        key = encode_key(CheckpointKey(group=checkpoint.group, topic=remote.topic, partition=remote.partition))
        partition = partition_of(key, self._offsets_partitions)
        return self._producer.send(self._settings.storage.offsets.name, partition, key, encode_offset(0))


async def _send(
    checkpoints: Sequence[Checkpoint], send: Callable[[Checkpoint], Awaitable[int]]
) -> tuple[list[Checkpoint], BaseException | None]:
    """Send a record for each checkpoint; return the checkpoints that were stored, and the first error."""
    sent = []
    for count, checkpoint in enumerate(checkpoints, 1):
        sent.append(send(checkpoint))
        if count % STEP_RECORDS == 0:
            await asyncio.sleep(0)
    results = await asyncio.gather(*sent, return_exceptions=True)
    stored = [one for one, result in zip(checkpoints, results, strict=True) if not isinstance(result, BaseException)]
    return stored, next((result for result in results if isinstance(result, BaseException)), None)
