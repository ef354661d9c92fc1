"""Offset syncs: which source offset became which target offset, by Java's rule of when to tell (mm2-compat §3.9)."""

from __future__ import annotations

import asyncio
import logging

from flows.batch.outgoing import Runs
from mm2.core.formats import OffsetSync
from mm2.core.lease import OffsetSyncsLease
from mm2.core.names import TopicPartition
from mm2.core.offset_sync_emission import AckedRun, OffsetSyncEmission
from mm2.kafka.control_producer import ControlProducer
from mm2.kafka.errors import ClusterClosed, ClusterError

log = logging.getLogger("mm2.syncs")

_PARTITION = 0  # all offset syncs go there, as in Java


class OffsetSyncs:
    """Sends what the emission rule asks for. A sync that cannot be written is not repeated: the next is as good."""

    def __init__(self, producer: ControlProducer, lease: OffsetSyncsLease) -> None:
        self._producer = producer
        self._topic = lease.topic
        self._emission = OffsetSyncEmission(lag_max=lease.lag_max)
        self._idle = asyncio.Event()
        self._idle.set()
        self.trouble: str | None = None

    def acked(self, partition: TopicPartition, runs: Runs, base_offset: int) -> None:
        """The target has these source offsets, one after the other from its ``base_offset`` on."""
        downstream = base_offset
        for upstream, count in runs:
            run = AckedRun(upstream=upstream, downstream=downstream, count=count)
            self._send(self._emission.acked(partition, run))
            downstream += count

    def commit(self) -> None:
        """Source offsets were stored: syncs that were held back go out."""
        self._send(self._emission.commit())

    def forget(self, partition: TopicPartition) -> None:
        """The partition has left the slot."""
        self._emission.forget(partition)

    async def settle(self) -> None:
        """Wait until every sync sent has been written or has failed; the caller bounds the wait."""
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
        if failed:  # those waiting cannot be sent either: they go with the next commit's
            self._emission.completed(failed)
        self._note_idle()

    def _written(self, done: asyncio.Future[int]) -> None:
        error = None if done.cancelled() else done.exception()
        if isinstance(error, ClusterClosed):
            return
        if error is not None:
            self._failed(error)
        elif not done.cancelled():
            self.trouble = None
        self._send(self._emission.completed())

    def _note_idle(self) -> None:
        if self._emission.idle:
            self._idle.set()

    def _failed(self, error: BaseException) -> None:
        words = f"write offset syncs to {self._topic}: {error}"
        if words != self.trouble:
            log.warning("%s", words)
        self.trouble = words
