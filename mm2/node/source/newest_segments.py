"""The newest exact offset segment of each partition, read from the topic so that lanes can append to it."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from functools import partial

from mm2.config.settings import FlowSettings
from mm2.core.naming.internal_topics import exact_offsets
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_records import (
    Segment,
    TopicIds,
    after_gap,
    decode_key,
    decode_segment,
    segment_text,
)
from mm2.core.offsets.leader_epochs import EpochStarts, before
from mm2.core.settings.client import IsolationLevel
from mm2.core.wire.formats import FormatError
from mm2.kafka.admin.cluster_admin import ClusterAdmin
from mm2.kafka.admin.internal_topics import ensure_internal_topic
from mm2.kafka.errors import ClusterError
from mm2.kafka.logs.compacted_log import CompactedLog
from mm2.kafka.logs.stored_records import StoredRecord
from mm2.kafka.retrying import API_TIMEOUT_MS
from mm2.node.common.current_error import CurrentError
from mm2.node.store.skipped_records import SkippedRecords

log = logging.getLogger(__name__)

PATIENCE_MS = 2_000
"""Limit for creating and for reading the topic while a lane waits for its lease; the lane can copy without it."""

STEP_RECORDS = 250
"""Records processed before yielding to the event loop: about 5 ms."""


@dataclass(frozen=True, slots=True)
class NewestSegment:
    """The newest segment of a partition, or what follows it if it cannot be read (`after_gap`).

    ``key`` and ``value`` are its record, of some hundred bytes; decoded it would need ten times that. ``end`` and
    ``epochs`` are the segment's; ``end`` is -1 after a gap.
    """

    sequence: int
    topic_ids: TopicIds
    key: bytes
    value: bytes
    end: int
    epochs: EpochStarts

    @classmethod
    def of(cls, segment: Segment, key: bytes, value: bytes) -> NewestSegment:
        return cls(segment.sequence, segment.topic_ids, key, value, segment.end, segment.epochs)

    @classmethod
    def after_gap(cls, segment: Segment) -> NewestSegment:
        """Return what journals continue; where copying had arrived is unknown."""
        return cls(segment.sequence, segment.topic_ids, segment.key(), segment.value(), -1, ())

    def epochs_before(self, position: int | None) -> EpochStarts:
        """Return the leader epochs of the records before source offset ``position``.

        They are unknown after ``end``, where another program has copied since.
        """
        return before(self.epochs, position) if position is not None and position <= self.end else ()

    @property
    def text(self) -> str:
        """The segment as it is sent in a lease."""
        return segment_text(self.key, self.value)

    @property
    def decoded(self) -> Segment:
        """The segment, which was decoded when it was read."""
        segment = decode_segment(self.key, self.value)
        assert segment is not None
        return segment


_DECODED = 2
"""Segments of each partition that are decoded: if the newest one cannot be read, the one before it has the progress."""


class NewestSegments:
    """The segment with the highest sequence of each partition; the last one if several have the same sequence.

    Segments are decoded only if they are the newest one, or if that cannot be read. An unreadable one is never
    written again by us: lanes continue with the sequence after it.

    The topic is created by the first `refresh`. ``error`` is why it cannot be used; until a later `refresh` succeeds,
    lanes must not write to it. ``settings`` can be replaced.
    """

    def __init__(self, settings: FlowSettings, target: ClusterAdmin) -> None:
        self.settings = settings
        self._target = target
        self._topic = exact_offsets(settings.flow)
        self._log = CompactedLog(
            target.cluster, self._topic.name, isolation=IsolationLevel.READ_COMMITTED, purpose="exact offsets"
        )
        self._skipped = SkippedRecords(settings.flow, self._topic.name)
        self._newest: dict[TopicPartition, NewestSegment] = {}
        self._read_now: dict[TopicPartition, dict[int, StoredRecord]] = {}  # by sequence, those not decoded yet
        self._ids: dict[TopicIds, TopicIds] = {}  # one object for all partitions of a topic
        self._reading = asyncio.Lock()
        self._there = False
        self._patience_ms = API_TIMEOUT_MS
        self.error = CurrentError(log, settings.flow)

    @property
    def topic(self) -> str:
        return self._topic.name

    def of(self, partition: TopicPartition) -> NewestSegment | None:
        """Return the segment according to the last `refresh`."""
        return self._newest.get(partition)

    async def refresh(self) -> None:
        """Read the records written since the last call. The first call may take longer, as no lane waits for it."""
        async with self._reading:
            patience_ms, self._patience_ms = self._patience_ms, PATIENCE_MS
            try:
                if not self._there:
                    await ensure_internal_topic(
                        self._target,
                        self._topic,
                        replication_factor=self.settings.checkpoint.checkpoints_topic_replication_factor,
                        timeout_ms=patience_ms,
                    )
                    self._there = True
                await self._read(patience_ms)
            except ClusterError as error:
                self._there = False
                self._log_failure(error)
            else:
                self.error.clear()

    async def _read(self, patience_ms: int) -> None:
        try:
            await self._skipped.apply(self._log.read_to_end(timeout_ms=patience_ms), self._take, step=STEP_RECORDS)
        finally:
            read, self._read_now = self._read_now, {}
            for number, (partition, records) in enumerate(read.items(), 1):
                for _, record in sorted(records.items()):
                    self._skipped.take(record, partial(self._decode, partition))
                if number % STEP_RECORDS == 0:
                    await asyncio.sleep(0)

    def _take(self, record: StoredRecord) -> None:
        key = decode_key(record.key)
        if record.value is None:
            return
        read = self._read_now.setdefault(key.topic_partition, {})
        read[key.sequence] = record
        if len(read) > _DECODED:
            del read[min(read)]

    def _decode(self, partition: TopicPartition, record: StoredRecord) -> None:
        key = decode_key(record.key)
        known = self._newest.get(partition)
        if known is not None and key.sequence < known.sequence:
            return
        try:
            segment = decode_segment(record.key, record.value)
        except FormatError:
            last = None if known is None else known.decoded
            self._newest[partition] = NewestSegment.after_gap(after_gap(key, last))
            raise
        assert segment is not None
        assert record.key is not None
        assert record.value is not None
        ids = self._ids.setdefault(segment.topic_ids, segment.topic_ids)
        self._newest[partition] = NewestSegment.of(replace(segment, topic_ids=ids), record.key, record.value)

    def _log_failure(self, error: ClusterError) -> None:
        text = (
            f"cannot write exact offsets: {error}; copying continues, but offsets of new records are translated as with"
            f" mm2.offset.translation = compatible until this is fixed"
        )
        self.error.report(text, error)
