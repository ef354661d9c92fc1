"""How far the exact offsets of each partition are written down, read from their topic for those who go on writing."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from dataclasses import dataclass

from mm2.config.settings import FlowSettings
from mm2.core.client_settings import IsolationLevel
from mm2.core.exact_offset_records import TopicIds, decode_segment
from mm2.core.formats import FormatError
from mm2.core.internal_topics import exact_offsets
from mm2.core.names import TopicPartition
from mm2.kafka.admin import ClusterAdmin
from mm2.kafka.compacted_log import CompactedLog
from mm2.kafka.errors import ClusterError
from mm2.kafka.internal_topics import ensure_internal_topic
from mm2.kafka.retrying import API_TIMEOUT_MS
from mm2.node.skipped_records import SkippedRecords
from mm2.node.trouble import troubled

log = logging.getLogger(__name__)

PATIENCE_MS = 2_000
"""How long making and reading the topic may each keep a lane waiting that asks for its lease: copying comes first, and
goes on without it."""

STEP_RECORDS = 250
"""Records folded before the event loop gets its turn: about 5 ms."""


@dataclass(frozen=True, slots=True)
class NewestSegment:
    """A partition's last segment. ``value`` is the record's, some hundred bytes; decoded it takes ten times that."""

    sequence: int
    topic_ids: TopicIds
    value: bytes

    @property
    def text(self) -> str:
        """As it travels in a lease."""
        return b64encode(self.value).decode()


class NewestSegments:
    """The newest segment of each partition, by its sequence; of those of one sequence the last.

    The topic is made when it is first read. ``trouble`` says why it cannot be used, None when it can: while there is
    some, nothing is to be written to it, and each `refresh` tries again.
    """

    def __init__(self, settings: FlowSettings, target: ClusterAdmin) -> None:
        self._settings = settings
        self._target = target
        self._topic = exact_offsets(settings.flow)
        self._log = CompactedLog(
            target.cluster, self._topic.name, isolation=IsolationLevel.READ_COMMITTED, purpose="exact offsets"
        )
        self._skipped = SkippedRecords(settings.flow, self._topic.name)
        self._newest: dict[TopicPartition, NewestSegment] = {}
        self._ids: dict[TopicIds, TopicIds] = {}  # one object for all partitions of a topic
        self._reading = asyncio.Lock()
        self._there = False
        self._patience_ms = API_TIMEOUT_MS
        self.trouble: str | None = None

    @property
    def topic(self) -> str:
        return self._topic.name

    def of(self, partition: TopicPartition) -> NewestSegment | None:
        """What was read by the last `refresh`."""
        return self._newest.get(partition)

    def take_over(self, settings: FlowSettings) -> None:
        """Go on with other settings."""
        self._settings = settings

    async def refresh(self) -> None:
        """Read what was written since the last time. The first time no lane waits yet."""
        async with self._reading:
            patience_ms, self._patience_ms = self._patience_ms, PATIENCE_MS
            try:
                if not self._there:
                    await ensure_internal_topic(
                        self._target,
                        self._topic,
                        replication_factor=self._settings.checkpoint.checkpoints_topic_replication_factor,
                        timeout_ms=patience_ms,
                    )
                    self._there = True
                await self._read(patience_ms)
            except ClusterError as error:
                self._there = False
                self._lament(error)
            else:
                self.trouble = None

    async def _read(self, patience_ms: int) -> None:
        taken = 0
        async for record in self._log.read_to_end(timeout_ms=patience_ms):
            try:
                segment = decode_segment(record.key, record.value)
            except FormatError as error:
                self._skipped.skip(record, error)
                continue
            if segment is not None and record.value is not None:
                ids = self._ids.setdefault(segment.topic_ids, segment.topic_ids)
                known = self._newest.get(segment.topic_partition)
                if known is None or segment.sequence >= known.sequence:
                    self._newest[segment.topic_partition] = NewestSegment(segment.sequence, ids, record.value)
            taken += 1
            if taken % STEP_RECORDS == 0:
                await asyncio.sleep(0)

    def _lament(self, error: ClusterError) -> None:
        sentence = (
            f"exact offsets are not written: {error}; new records' offsets are translated as with"
            f" mm2.offset.translation=compatible until a lane starts and finds this repaired"
        )
        self.trouble = troubled(log, self._settings.flow, self.trouble, sentence)
