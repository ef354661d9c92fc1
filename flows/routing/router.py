"""Writes the records of fetched batches one by one, each to the partition of its key."""

from __future__ import annotations

import asyncio
import time

from flows.partition.frames_in_query import FrameInQuery
from flows.partition.replicator import PartitionReplicator
from flows.partition.timeouts import TIMEOUTS, Timeouts
from flows.routing.new_topics import NewTopics
from flows.routing.partition_router import RECORDS_AT_ONCE, RECORDS_UNANSWERED, Handle, PartitionRouter, RoomForRecords
from flows.routing.record_sender import RecordSender
from flows.source.record_limits import RecordLimits
from flows.source_task.spawn import Spawn
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.logs.control_producer import ControlProducer

DECODED_FRAMES = 4
"""So many partitions hold a decoded frame that is not sent completely: more than one, since a handler may wait for
something. Each has a decompressor, and decoded records of some megabytes while the buffer is full."""

WATCH_INTERVAL_S = 1.0
"""How often unacknowledged records are looked for. They are reported after `Timeouts.unanswered_report_s`."""


class RecordRouter:
    """Implements `flows.partition.frame_transform.FrameTransform` for one source task.

    (A) The records of a source partition are sent in their order, so records with the same key keep it.
    (B) A partition moves over a frame when the target has all that was made of its records, and of those before.
    (C) After a batch that the target rejects, what follows is written again: consumers of the target can see records
        twice, but the last copies are in order.
    (D) What is sent is not sent again while it is awaited, also if the partition has to release its memory.
    (E) A partition leaves when the target has all that was sent for it, or has rejected it, also of frames whose
        results are no longer awaited: the next owner writes the same keys, and nothing older may follow.
    """

    writes_itself = True

    def __init__(
        self,
        target: Cluster,
        producer: ControlProducer,
        handle: Handle,
        new_topics: NewTopics | None,
        spawn: Spawn,
        *,
        limits: RecordLimits,
        timeouts: Timeouts = TIMEOUTS,
        records_unanswered: int = RECORDS_UNANSWERED,
        watch_interval_s: float = WATCH_INTERVAL_S,
        records_at_once: int = RECORDS_AT_ONCE,
    ) -> None:
        """``new_topics`` creates the topics that ``handle`` names; None: they exist. ``limits``: which records are
        too large. ``records_unanswered``: of all partitions. ``records_at_once``: so many are sent before other work of
        the lane has its turn."""
        self._sender = RecordSender(target, producer, new_topics, missing_topic_s=timeouts.missing_topic_s)
        self._timeouts = timeouts
        self._watch_interval_s = watch_interval_s
        self._records_at_once = records_at_once
        self._handle = handle
        self._limits = limits
        self._room = RoomForRecords(records_unanswered)
        self._decoding = asyncio.Semaphore(DECODED_FRAMES)
        self._spawn = spawn
        self._partitions: dict[PartitionReplicator, PartitionRouter] = {}
        self._watched = False

    def submit(self, partition: PartitionReplicator, frame: FrameInQuery) -> None:
        """Write the records of the frame."""
        router = self._partitions.get(partition)
        if router is None:
            if not self._watched:
                self._watched = True
                self._spawn(self._watch())
            router = self._partitions[partition] = PartitionRouter(
                partition,
                self._handle,
                self._sender,
                self._decoding,
                self._room,
                limits=self._limits,
                report_after_s=self._timeouts.unanswered_report_s,
                records_at_once=self._records_at_once,
            )
            self._spawn(router.send())
            self._spawn(router.complete())
        router.add(frame)

    async def remove(self, partition: PartitionReplicator) -> None:
        """Write nothing more for the partition, and wait until nothing of it is queued: (E)."""
        router = self._partitions.pop(partition, None)
        if router is not None:
            await router.end()

    async def _watch(self) -> None:
        """Report partitions whose records the target does not acknowledge."""
        while True:
            await asyncio.sleep(self._watch_interval_s)
            now = time.monotonic()
            for router in self._partitions.values():
                router.report_unanswered(now)
