"""Offset syncs, which map a source offset to a target offset.

Rules from org.apache.kafka.connect.mirror.OffsetSyncWriter.
"""

from __future__ import annotations

import asyncio
import logging

from flows.batch.target_batch import Runs
from mm2.core.lanes.lease import OffsetSyncsLease
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.offset_sync_emission import AckedRun, OffsetSyncEmission
from mm2.core.wire.formats import OffsetSync
from mm2.kafka.errors import ClusterClosed, ClusterError
from mm2.kafka.logs.control_producer import ControlProducer

log = logging.getLogger(__name__)

_PARTITION = 0  # all offset syncs go there, as in Java


class OffsetSyncWriter:
    """Sends the syncs that the emission rule selects.

    A sync that cannot be written is not retried: the next one replaces it.
    """

    def __init__(self, producer: ControlProducer, lease: OffsetSyncsLease) -> None:
        self._producer = producer
        self._topic = lease.topic
        self._emission = OffsetSyncEmission(lag_max=lease.lag_max)
        self._idle = asyncio.Event()
        self._idle.set()
        self.error: str | None = None

    def acknowledged(self, partition: TopicPartition, runs: Runs, base_offset: int) -> None:
        """The target has appended these source offsets in order, starting at ``base_offset``."""
        downstream = base_offset
        for upstream, count in runs:
            run = AckedRun(upstream=upstream, downstream=downstream, count=count)
            self._send(self._emission.acked(partition, run))
            downstream += count

    def commit(self) -> None:
        """Send the offset syncs that were delayed until source offsets were stored."""
        self._send(self._emission.commit())

    def remove(self, partition: TopicPartition) -> None:
        """The partition has left the source task."""
        self._emission.forget(partition)

    async def wait(self) -> None:
        """Wait until every sync sent has been written or has failed; the caller limits the wait."""
        await self._idle.wait()

    def _send(self, syncs: list[OffsetSync]) -> None:
        failed = 0
        for sync in syncs:
            self._idle.clear()
            try:
                written = self._producer.send(self._topic, _PARTITION, sync.key(), sync.value())
            except ClusterError as error:
                self._failed(error)
                failed += 1
            else:
                written.add_done_callback(self._written)
        if failed:  # waiting syncs cannot be sent either; the next commit sends them
            self._emission.completed(failed)
        if self._emission.idle:
            self._idle.set()

    def _written(self, done: asyncio.Future[int]) -> None:
        error = None if done.cancelled() else done.exception()
        if isinstance(error, ClusterClosed):
            return
        if error is not None:
            self._failed(error)
        elif not done.cancelled():
            self.error = None
        self._send(self._emission.completed())

    def _failed(self, error: BaseException) -> None:
        message = f"cannot write offset syncs to {self._topic}: {error}"
        if message != self.error:
            log.warning("%s", message)
        self.error = message
