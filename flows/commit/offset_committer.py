"""Commits of what the target acknowledged: losses and exact offsets first, then source offsets, then offset syncs.

Start offsets that were chosen because none was stored are committed at once.

Source offsets are stored on the target in Connect's format (org.apache.kafka.connect.storage.OffsetStorageWriter).
With MirrorMaker 1 the lane only reports its positions (`ReportedOffsets`), and the node commits them as offsets of the
consumer group.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from flows.batch.target_batch import TargetBatch
from flows.commit.committer import FLUSH_TIMEOUT_S, Committer
from flows.commit.exact_offset_writer import ExactOffsetWriter
from flows.commit.loss_writer import LossWriter
from flows.commit.offset_sync_writer import OffsetSyncWriter
from flows.partition.replicator import PartitionReplicator
from flows.partition.state import OffsetRange, PartitionState
from mm2.core.lanes.lease import OffsetsLease
from mm2.core.offsets.connect_offsets import SourceKey, encode_key, encode_offset
from mm2.core.wire.murmur2 import partition_of
from mm2.kafka.errors import ClusterClosed, ClusterError
from mm2.kafka.logs.control_producer import ControlProducer

log = logging.getLogger(__name__)


class OffsetCommitter(Committer):
    """At least once: stores the last copied offset of partitions that moved, once per flush interval.

    (A) A source offset is sent only after the exact offsets for it were sent, and written or timed out.
    (B) A source offset is before the partition's ``position``: the target has acknowledged it and all before it.
    (C) A partition has one write in flight at a time, so that an older offset never follows a newer one.
    """

    def __init__(
        self,
        producer: ControlProducer,
        lease: OffsetsLease,
        *,
        source: str,
        losses: LossWriter,
        syncs: OffsetSyncWriter | None,
        exact: ExactOffsetWriter | None,
    ) -> None:
        """``source`` is the source cluster's alias. ``syncs`` and ``exact`` None: the flow does not write them."""
        super().__init__(losses=losses, syncs=syncs, exact=exact)
        self._producer = producer
        self._lease = lease
        self._source = source
        self._exact = exact
        self._flushing = asyncio.Lock()
        self._writing: dict[PartitionState, asyncio.Future[int]] = {}
        self._error: str | None = None

    @property
    def error(self) -> str | None:
        return self._error or super().error

    def start_chosen(self, partition: PartitionReplicator) -> None:
        """The partition has chosen its start: store it at once. A failed write is repeated by the next `flush`."""
        self._moved.add(partition)
        offset = partition.offset_to_commit
        if offset is not None and partition not in self._writing:
            self._write(partition, offset)

    def acknowledged(
        self, partition: PartitionReplicator, batch: TargetBatch, base_offset: int, checked: OffsetRange
    ) -> None:
        """The target has acknowledged a batch; see `flows.partition.state.PartitionCallbacks`."""
        self._moved.add(partition)
        if self._exact is not None:
            self._exact.acknowledged(partition, batch, base_offset, checked)
        if self._syncs is not None and base_offset >= 0:
            self._syncs.acknowledged(partition.source, batch.runs, base_offset)

    def commit_passed_over(self) -> None:
        """They are stored with the next `flush`, like the offsets of copied records."""

    def is_committed(self, partition: PartitionReplicator) -> bool:
        """Return whether the offset of every acknowledged batch of this partition is stored."""
        return partition not in self._moved and partition not in self._writing

    async def flush(self) -> None:
        """Write all pending records, source offsets last. What cannot be written in time is written later."""
        async with self._flushing:
            due = {partition: partition.offset_to_commit for partition in self._moved}
            if self._exact is not None:
                self._exact.write()
                await self._exact.wait(FLUSH_TIMEOUT_S)
            await self.losses_recorded()
            for partition, last in due.items():
                offset = partition.offset_to_commit if partition.needs_initial_commit else last  # truncated meanwhile
                if offset is None or partition in self._writing or self._losses.holds_back(partition.source, offset):
                    continue
                if not self._write(partition, offset):
                    break
            if self._writing:
                await asyncio.wait(list(self._writing.values()), timeout=FLUSH_TIMEOUT_S)

    def _write(self, partition: PartitionReplicator, offset: int) -> bool:
        source = partition.source
        key = encode_key(SourceKey(cluster=self._source, topic=source.topic, partition=source.partition))
        try:
            written = self._producer.send(
                self._lease.topic, partition_of(key, self._lease.partitions), key, encode_offset(offset)
            )
        except ClusterError as error:
            self._failed(error)
            return False
        self._moved.discard(partition)
        self._writing[partition] = written
        written.add_done_callback(partial(self._written, partition, offset))
        return True

    def _written(self, partition: PartitionReplicator, offset: int, done: asyncio.Future[int]) -> None:
        del self._writing[partition]
        error = None if done.cancelled() else done.exception()
        if isinstance(error, ClusterClosed):
            return
        if error is not None:
            self._failed(error)
        elif not done.cancelled():
            partition.committed(offset)
            log.debug("%s: source offset %d stored", partition.source, offset)
            self._error = None
        if error is not None or done.cancelled() or partition.offset_to_commit not in (None, offset):
            self._moved.add(partition)

    def _failed(self, error: BaseException) -> None:
        message = f"cannot commit source offsets to {self._lease.topic}: {error}"
        if message != self._error:
            log.warning("%s", message)
        self._error = message


class ReportedOffsets(Committer):
    """At least once: the position is behind what the target acknowledged, and the node stores it after that."""

    def __init__(self) -> None:
        super().__init__(losses=LossWriter(None, None), syncs=None, exact=None)

    def acknowledged(
        self, partition: PartitionReplicator, batch: TargetBatch, base_offset: int, checked: OffsetRange
    ) -> None:
        """The target has acknowledged a batch."""
        self._moved.add(partition)

    def start_chosen(self, partition: PartitionReplicator) -> None:
        """The partition has chosen its start, which the node takes from the next report."""
        self._moved.add(partition)
        if (offset := partition.offset_to_commit) is not None:
            partition.committed(offset)

    def commit_passed_over(self) -> None:
        """They are reported like those of copied records."""

    def is_committed(self, partition: PartitionReplicator) -> bool:
        """Return whether the position of this partition is reported as stored."""
        return partition not in self._moved

    async def flush(self) -> None:
        """Take every position for stored."""
        moved, self._moved = self._moved, set()
        for partition in moved:
            if (offset := partition.offset_to_commit) is not None:
                partition.committed(offset)
