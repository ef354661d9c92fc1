"""Commits of what the target acknowledged: losses and exact offsets first, then source offsets, then offset syncs.

Start offsets that were chosen because none was stored are committed at once.

Source offsets are stored on the target in Connect's format (org.apache.kafka.connect.storage.OffsetStorageWriter).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from functools import partial

from flows.batch.target_batch import TargetBatch
from flows.commit.exact_offset_writer import ExactOffsetWriter
from flows.commit.loss_writer import LossWriter
from flows.commit.offset_sync_writer import OffsetSyncWriter
from flows.partition.state import OffsetRange, PartitionState
from mm2.core.lanes.lease import OffsetsLease, PartitionLease
from mm2.core.lanes.losses import Loss
from mm2.core.offsets.connect_offsets import SourceKey, encode_key, encode_offset
from mm2.core.wire.murmur2 import partition_of
from mm2.kafka.errors import ClusterClosed, ClusterError
from mm2.kafka.logs.control_producer import ControlProducer

log = logging.getLogger("mm2.offsets")

FLUSH_TIMEOUT_S = 5.0
"""How long to wait for one kind of record before the next kind is written anyway; Java's default of
offset.flush.timeout.ms."""


class OffsetCommitter:
    """Stores the last copied offset of partitions that moved, and triggers the writes of syncs and exact offsets.

    (A) A source offset is sent only after the exact offsets for it were sent, and written or timed out.
    (B) A source offset is before the partition's ``position``: the target has acknowledged it and all before it.
    (C) A partition has one write in flight at a time, so that an older offset never follows a newer one.
    (D) A source offset after a loss is sent only when the loss is recorded (`LossWriter`).
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
        self._producer = producer
        self._lease = lease
        self._source = source
        self._losses = losses
        self._syncs = syncs
        self._exact = exact
        self._flushing = asyncio.Lock()
        self._moved: set[PartitionState] = set()
        self._writing: dict[PartitionState, asyncio.Future[int]] = {}
        self._error: str | None = None

    @property
    def error(self) -> str | None:
        """The error that prevents writing source offsets or offset syncs."""
        return self._error or (self._syncs.error if self._syncs is not None else None)

    @property
    def warnings(self) -> tuple[str | None, ...]:
        """The errors that prevent writing exact offsets and losses; replication continues without them."""
        return (self._exact.error if self._exact is not None else None, self._losses.warning)

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The newest losses."""
        return self._losses.newest

    def lost(self, _: PartitionState, loss: Loss) -> None:
        """Source records of the partition can no longer be copied."""
        self._losses.lost(loss)

    async def losses_recorded(self) -> None:
        """Send what is not recorded, and wait at most `FLUSH_TIMEOUT_S` until it is."""
        self._losses.write()
        await self._losses.wait(FLUSH_TIMEOUT_S)

    def add(self, partition: PartitionState, lease: PartitionLease) -> None:
        """The source task copies this partition from now on."""
        if partition.needs_initial_commit and partition.stopped_by is None:
            self._moved.add(partition)
        if self._exact is not None:
            self._exact.add(partition, lease)

    def start_chosen(self, partition: PartitionState) -> None:
        """The partition had no stored offset and has chosen its start: store it at once.

        Otherwise a restart before the first copied record would choose again, and with auto.offset.reset=latest the
        records written in between would not be copied. A failed write is repeated by the next `flush`.
        """
        self._moved.add(partition)
        offset = partition.offset_to_commit
        if offset is not None and partition not in self._writing:
            self._write(partition, offset)

    def acknowledged(
        self, partition: PartitionState, batch: TargetBatch, base_offset: int, checked: OffsetRange
    ) -> None:
        """The target has acknowledged a batch; see `flows.partition.listener.PartitionListener`."""
        self._moved.add(partition)
        if self._exact is not None:
            self._exact.acknowledged(partition, batch, base_offset, checked)
        if self._syncs is not None and base_offset >= 0:
            self._syncs.acknowledged(partition.source, batch.runs, base_offset)

    def skipped(self, partition: PartitionState, checked: OffsetRange) -> None:
        """The position moved over source offsets that carry no record."""
        if self._exact is not None:
            self._exact.skipped(partition, checked)

    def truncated(self, partition: PartitionState, offset: int) -> None:
        """The position moved back to ``offset``: the source lost its records from there on."""
        self._moved.add(partition)
        if self._exact is not None:
            self._exact.truncated(partition, offset)

    def left_out(self, partition: PartitionState, checked: OffsetRange) -> None:
        """The position moved behind records that were left out."""
        self._moved.add(partition)
        self.skipped(partition, checked)

    def topic_ids_changed(self, partition: PartitionState) -> None:
        """The partition's ``topic_ids`` have changed or become known."""
        if self._exact is not None:
            self._exact.topic_ids_changed(partition)

    def is_committed(self, partition: PartitionState) -> bool:
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

    def release_syncs(self) -> None:
        """Send the offset syncs that were delayed until source offsets were stored."""
        if self._syncs is not None:
            self._syncs.commit()

    async def remove(self, partitions: Collection[PartitionState]) -> None:
        """Send the syncs of partitions that leave the source task, and remove the partitions.

        The caller limits the wait.
        """
        self.release_syncs()
        if self._syncs is not None:
            await self._syncs.wait()
        for partition in partitions:
            if self._syncs is not None:
                self._syncs.remove(partition.source)
            if self._exact is not None:
                self._exact.remove(partition)

    def _write(self, partition: PartitionState, offset: int) -> bool:
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

    def _written(self, partition: PartitionState, offset: int, done: asyncio.Future[int]) -> None:
        del self._writing[partition]
        error = None if done.cancelled() else done.exception()
        if isinstance(error, ClusterClosed):
            return
        if error is not None:
            self._failed(error)
        elif not done.cancelled():
            partition.committed(offset)
            self._error = None
        if error is not None or done.cancelled() or partition.offset_to_commit not in (None, offset):
            self._moved.add(partition)

    def _failed(self, error: BaseException) -> None:
        message = f"cannot commit source offsets to {self._lease.topic}: {error}"
        if message != self._error:
            log.warning("%s", message)
        self._error = message
