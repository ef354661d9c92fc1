"""The leader's task that deletes segments of the exact offset map, and knows how far back the map goes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping

from mm2.config.settings import FlowSettings
from mm2.core.naming.internal_topics import exact_offsets
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_records import SegmentKey, decode_key
from mm2.core.offsets.exact_offsets import ExactOffsets
from mm2.core.offsets.map_retention import MapExtent, MapLimits, deletable
from mm2.core.offsets.segment_index import LoadedSegments
from mm2.core.settings.client import IsolationLevel
from mm2.core.wire.formats import FormatError
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.offsets import OffsetSpec, list_offsets
from mm2.kafka.errors import BrokerError, ClusterError
from mm2.kafka.logs.compacted_log import CompactedLog
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.kafka.logs.stored_records import StoredRecord
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.node.common.current_error import CurrentError
from mm2.node.common.keep_trying import keep_trying

log = logging.getLogger(__name__)

LOOK_EVERY_S = 10.0
"""How often the map is read on. A partition that is all gaps fills a segment in some minutes."""

STARTS_EVERY_S = 300.0
"""How often the source is asked for its log starts: brokers check retention every five minutes by default."""

STEP_RECORDS = 250
"""Records processed before yielding to the event loop: about 5 ms."""

DELETED_AT_ONCE = 5_000
"""Records of one round, of about 100 bytes: the rest follows in the next one."""

PARTITION = 0  # the topic has one


class MapRetention:
    """Applies mm2.offset.translation.window and mm2.offset.map.max.bytes for one leader's term.

    (A) The newest segment of a partition is never deleted: lanes continue it. All others are complete, so no lane
        writes them any more, and a leader of an earlier term that also deletes some does no harm.
    (B) An error ends nothing: it is shown, and retried. Without the source, log starts are those that were known, and
        nothing is deleted of partitions whose log start was never known, unless the topic is too large.
    """

    def __init__(
        self,
        settings: FlowSettings,
        *,
        source: Cluster,
        target: Cluster,
        look_every_s: float = LOOK_EVERY_S,
        starts_every_s: float = STARTS_EVERY_S,
    ) -> None:
        self._flow = settings.flow
        self._limits = MapLimits(
            window=settings.own.offset_translation_window, max_bytes=settings.own.offset_map_max_bytes
        )
        self._source = source
        self._target = target
        self._look_every_s = look_every_s
        self._starts_every_s = starts_every_s
        self._topic = exact_offsets(settings.flow).name
        self._log = CompactedLog(
            target, self._topic, isolation=IsolationLevel.READ_COMMITTED, purpose="exact offsets retention"
        )
        self._offsets = ExactOffsets(LoadedSegments(kept=0))
        self._others: dict[TopicPartition, set[SegmentKey]] = {}
        self._starts: dict[TopicPartition, int] = {}
        self._starts_at = float("-inf")
        self._asked: set[TopicPartition] = set()  # since then
        self._told_size = False
        self.extents: Mapping[TopicPartition, MapExtent] = {}
        """How far back the map goes, of the partitions in it; another object after each change."""
        self.error = CurrentError(log, settings.flow)

    async def run(self) -> None:
        """Delete what is due until cancelled."""
        async with ControlProducer(self._target, purpose="exact offsets retention") as producer:
            while True:
                await keep_trying(
                    lambda: self._round(producer),
                    self.error,
                    "limit the exact offset map",
                    unexpected="unexpected error while limiting the exact offset map",
                )
                self.error.clear()
                await asyncio.sleep(self._look_every_s)

    async def _round(self, producer: ControlProducer) -> None:
        try:
            await self._read()
        except BrokerError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            return  # lanes create it
        await self._ask_starts()
        self._show_extents()
        due = deletable(self._offsets.partitions, self._others, self._starts, self._limits)
        if due.for_size and not self._told_size:
            log.info(
                "%s: %s has more than mm2.offset.map.max.bytes (%d): deleting the oldest segments of its largest"
                " partitions; positions there are translated conservatively",
                *(self._flow, self._topic, self._limits.max_bytes),
            )
        self._told_size = bool(due.for_size)
        keys = [key.encode() for key in due.keys[:DELETED_AT_ONCE]]
        if keys:
            await asyncio.gather(*(producer.send(self._topic, PARTITION, key, None) for key in keys))
            log.debug("%s: deleted %d segments of %s", self._flow, len(keys), self._topic)
            await self._read()
            self._show_extents()

    async def _read(self) -> None:
        taken = 0
        async for record in self._log.read_to_end():
            with contextlib.suppress(FormatError):  # the checkpoint task and the source tasks count and log it
                self._take(record)
            taken += 1
            if taken % STEP_RECORDS == 0:
                await asyncio.sleep(0)

    def _take(self, record: StoredRecord) -> None:
        if record.problem is not None:
            return
        key = decode_key(record.key)
        others = self._others.setdefault(key.topic_partition, set())
        others.discard(key)
        if record.value is None:
            self._offsets.apply_record(record.key, None, record.offset)
            return
        before = self._offsets.entries(key.topic_partition)
        if before and before[-1].era < key.era:
            others |= {SegmentKey(key.topic_partition, entry.era, entry.sequence) for entry in before}
        try:
            self._offsets.apply_record(record.key, record.value, record.offset)
        finally:
            partition = self._offsets.partitions.get(key.topic_partition)
            if key.sequence >= 0 and (partition is None or partition.entry(key.era, key.sequence) is None):
                others.add(key)

    async def _ask_starts(self) -> None:
        now = time.monotonic()
        if now - self._starts_at >= self._starts_every_s:
            self._starts_at = now
            self._asked.clear()
        new = self._offsets.partitions.keys() - self._asked
        if not new:
            return
        self._asked |= new
        try:
            answers = await list_offsets(self._source, new, OffsetSpec.EARLIEST, timeout_ms=0)
        except ClusterError as error:
            log.debug("%s: cannot read the log starts of the source: %s", self._flow, error)
            return
        self._starts |= {one: start for one, start in answers.items() if isinstance(start, int) and start >= 0}

    def _show_extents(self) -> None:
        found = {
            one: MapExtent(exact_from=known.exact_from, log_start=self._starts.get(one))
            for one, known in self._offsets.partitions.items()
            if known.exact_from is not None
        }
        if found != self.extents:
            self.extents = found
