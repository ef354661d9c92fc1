"""Offset translation from the offset syncs and the exact offset map."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from mm2.config.settings import FlowSettings
from mm2.core.access.rights import on_topic
from mm2.core.naming import internal_topics
from mm2.core.naming.internal_topics import Side
from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.offsets.exact_offset_records import Segment, decode_segment
from mm2.core.offsets.exact_offsets import ExactOffsets
from mm2.core.offsets.offset_sync_store import OffsetSyncStore
from mm2.core.offsets.offset_translation import Translation
from mm2.core.offsets.segment_index import SegmentNotLoaded
from mm2.core.positions.answer import PositionAnswer
from mm2.core.positions.map_positions import MapPositions
from mm2.core.positions.source_to_target import UNKNOWN_CAUSES, UNKNOWN_EXTENT, Extent, HoleCauses
from mm2.core.settings.client import IsolationLevel
from mm2.core.topics.acls import Operation
from mm2.core.wire.formats import FormatError, OffsetSync
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterError, RequestTimedOut, check
from mm2.kafka.logs.compacted_log import CompactedLog
from mm2.kafka.logs.record_fetch import fetch_record
from mm2.kafka.logs.stored_records import StoredRecord
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.node.common.current_error import CurrentError
from mm2.node.common.keep_trying import keep_trying
from mm2.node.store.skipped_records import SkippedRecords

log = logging.getLogger(__name__)

EXACT = "exact"  # a value of mm2.offset.translation; the other one is compatible

STEP_RECORDS = 250
"""Records processed before yielding to the event loop: about 5 ms."""

NOTHING_MOVED_MS = 10_000
"""If no record arrives for this long, reading a topic to its end is reported as stalled. Reading continues."""


FETCH_S = 5.0
"""How long a segment is waited for: without it, a translation is conservative."""

UNREADABLE_S = 10.0
"""After a segment could not be fetched, none is fetched for this long, so that a round of thousands of groups ends."""

_T = TypeVar("_T")

PARTITION = 0  # of the exact map's topic, which has only one


@dataclass(frozen=True, slots=True)
class TranslatedPositions:
    """Translations of some positions, with segments that had to be fetched."""

    _translations: Mapping[tuple[TopicPartition, int], tuple[Translation, int | None]]

    def translate(self, partition: TopicPartition, offset: int) -> Translation:
        """As `FlowTranslation.translate`, for one of the positions."""
        return self._translations[partition, offset][0]

    def latest(self, partition: TopicPartition, offset: int) -> int | None:
        """As `FlowTranslation.latest`, for one of the positions."""
        return self._translations[partition, offset][1]


class FlowTranslation:
    """Translates the source offsets of one flow.

    ``ready`` is set once offsets can be translated as precisely as possible.

    Invariants: (A) no offset is translated before the offset syncs were read to their end once. (B) The exact map is
    used only after it was read to its end, too. (C) Without the exact map, the results are the same as Java's. (D) Old
    segments of the map are fetched when a position is in them. One that cannot be fetched makes a translation
    conservative, and is fetched again later.
    """

    def __init__(self, settings: FlowSettings, source: Cluster, target: Cluster, must_read_to_end: bool) -> None:
        """``source`` and ``target`` are clients with the roles OFFSET_SYNCS_SOURCE_CONSUMER and
        OFFSET_SYNCS_TARGET_CONSUMER. ``must_read_to_end``: earlier checkpoints are unknown (`OffsetSyncStore`)."""
        self._flow = settings.flow
        self._store = OffsetSyncStore(must_read_to_end=must_read_to_end)
        location = Side(settings.source.offset_syncs_topic_location)
        self._syncs = _Topic(
            settings.flow,
            source if location is Side.SOURCE else target,
            internal_topics.offset_syncs(settings.policy, settings.aliases, location).name,
            self._take_sync,
        )
        self.ready = asyncio.Event()
        self._syncs_error = CurrentError(log, settings.flow, "the offset syncs have not been read yet")
        self._offsets = ExactOffsets()
        self._positions = MapPositions(self._offsets)
        self._target = target
        self._unreadable_until = 0.0
        self._exact: _Topic | None = None
        self._exact_error = CurrentError(log, settings.flow, level=logging.INFO)
        self._exact_tried = False
        if settings.own.offset_translation == EXACT:
            self._exact = _Topic(
                settings.flow,
                target,
                internal_topics.exact_offsets(settings.flow).name,
                self._take_segment,
                isolation=IsolationLevel.READ_COMMITTED,
            )

    @property
    def last_error(self) -> str | None:
        """Why the offset syncs cannot be read, or None. Meanwhile, translation uses those that were read before."""
        if self._syncs_error.text is None and self._syncs.last_error is not None:
            return f"cannot read offset syncs: {self._syncs.last_error}"
        return self._syncs_error.text

    @property
    def exact_error(self) -> str | None:
        """Why the exact map is missing or out of date although the flow uses it; None if it is up to date."""
        if self._exact_error.text is None and self._exact is not None and self._exact.last_error is not None:
            return self._exact_text(self._exact.last_error)
        return self._exact_error.text

    @property
    def skipped(self) -> Mapping[str, int]:
        """Records that could not be read, by topic."""
        topics = [self._syncs] if self._exact is None else [self._syncs, self._exact]
        return {topic.topic: topic.skipped.count for topic in topics}

    def translate(self, partition: TopicPartition, offset: int) -> Translation:
        """Translate ``offset``, the next offset that a group reads in source ``partition``, to the target.

        Raises SegmentNotLoaded: then use `translated`.
        """
        if self._exact is None or not self._exact.read:
            return self._store.translate(partition, offset)
        return self._offsets.translate(partition, offset, self._store.translate)

    def latest(self, partition: TopicPartition, offset: int) -> int | None:
        """Return the last target offset from which a group at ``offset`` misses no record.

        None if the exact map does not contain it. Raises SegmentNotLoaded: then use `translated`.
        """
        return None if self._exact is None or not self._exact.read else self._offsets.latest(partition, offset)

    async def translated(self, positions: Mapping[TopicPartition, int]) -> TranslatedPositions:
        """Translate these positions; segments that are needed are fetched."""
        found = {}
        for partition, offset in positions.items():
            found[partition, offset] = await self.with_segments(partition, partial(self._both, partition, offset))
        return TranslatedPositions(found)

    def _both(self, partition: TopicPartition, offset: int) -> tuple[Translation, int | None]:
        return self.translate(partition, offset), self.latest(partition, offset)

    async def position_on_target(
        self,
        partition: TopicPartition,
        offset: int,
        *,
        causes: HoleCauses = UNKNOWN_CAUSES,
        source: Extent = UNKNOWN_EXTENT,
        target: Extent = UNKNOWN_EXTENT,
    ) -> PositionAnswer:
        """Return where source offset ``offset`` of a source partition is on the target.

        ``causes``, ``source`` and ``target`` are what is known apart from the map, as in `target_position`.
        """
        ask = partial(
            self._known_positions.on_target,
            partition,
            offset,
            by_syncs=self._store.translate(partition, offset),
            causes=causes,
            source=source,
            target=target,
        )
        return await self.with_segments(partition, ask)

    async def position_on_source(
        self,
        partition: TopicPartition,
        target_offset: int,
        *,
        foreign: Sequence[tuple[int, int]] = (),
        source: Extent = UNKNOWN_EXTENT,
        target: Extent = UNKNOWN_EXTENT,
    ) -> PositionAnswer:
        """Return where offset ``target_offset`` of the remote partition is in the source partition ``partition``.

        The other arguments are what is known apart from the map, as in `TargetOrder.source_position`.
        """
        ask = partial(
            self._known_positions.on_source, partition, target_offset, foreign=foreign, source=source, target=target
        )
        return await self.with_segments(partition, ask)

    @property
    def _known_positions(self) -> MapPositions:
        return self._positions if self._exact is not None and self._exact.read else MapPositions(ExactOffsets())

    async def with_segments(self, partition: TopicPartition, ask: Callable[[], _T]) -> _T:
        """Return what ``ask`` returns for a source partition, after fetching the segments that it needs."""
        lost: list[int] = []
        try:
            while True:
                try:
                    return ask()
                except SegmentNotLoaded as missing:
                    self._offsets.put(partition, missing.place, await self._fetched(missing.place, lost))
        finally:
            for place in lost:  # to be fetched again
                self._offsets.loaded.discard(place)

    async def _fetched(self, place: int, lost: list[int]) -> Segment | None:
        """Fetch a segment. If that fails, add it to ``lost`` and return None."""
        assert self._exact is not None
        topic = TopicPartition(self._exact.topic, PARTITION)
        try:
            if time.monotonic() < self._unreadable_until:
                raise RequestTimedOut("it failed a moment ago")
            async with asyncio.timeout(FETCH_S):
                record = await fetch_record(self._target, topic, place, purpose="exact offsets")
        except (ClusterError, TimeoutError) as error:
            if time.monotonic() >= self._unreadable_until:
                self._unreadable_until = time.monotonic() + UNREADABLE_S
                reason = error if isinstance(error, ClusterError) else f"no answer within {FETCH_S:.0f} s"
                log.warning(
                    "%s: cannot read offset %d of %s: %s; translating positions of that part conservatively",
                    self._flow,
                    place,
                    topic,
                    reason,
                )
            lost.append(place)
            return None
        try:
            return None if record is None else decode_segment(record.key, record.value)
        except FormatError:
            return None

    async def read_to_end(self, *, without_syncs: bool = False) -> None:
        """Read all records that the topics contain now. Raises ClusterError if the offset syncs cannot be read.

        ``without_syncs``: the cluster of the offset syncs is lost, and only the exact map is used.
        """
        if without_syncs:
            self._store.read_to_end()
        else:
            await self._read_syncs()
        if self._exact is not None:
            try:
                await self._read_exact(self._exact)
            except ClusterError as error:
                self._exact_error.report(self._exact_text(error), error)
            else:
                self._exact_error.clear()

    async def follow(self) -> None:
        """Apply new records until cancelled, and retry after errors; first read to the end if not done yet."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_syncs(), name=f"{self._flow} offset syncs")
            if self._exact is not None:
                group.create_task(self._follow_exact(self._exact), name=f"{self._flow} exact offsets")

    async def _read_syncs(self) -> None:
        await self._syncs.read_to_end()
        self._store.read_to_end()
        self._syncs_error.clear()
        self._announce()

    async def _read_exact(self, exact: _Topic) -> None:
        try:
            await exact.read_to_end()
        finally:
            self._exact_tried = True
            self._announce()

    async def _follow_syncs(self) -> None:
        async def attempt() -> None:
            if not self._store.ready:
                await self._read_syncs()
            self._syncs_error.hide()
            await self._syncs.follow()

        await keep_trying(attempt, self._syncs_error, "read offset syncs")

    async def _follow_exact(self, exact: _Topic) -> None:
        async def attempt() -> None:
            if not exact.read:
                await self._read_exact(exact)
            if self._exact_error.text is not None:
                log.info("%s: reading %s again", self._flow, exact.topic)
                self._exact_error.hide()
            await exact.follow()

        await keep_trying(attempt, self._exact_error, self._exact_text)

    def _exact_text(self, error: BaseException) -> str:
        assert self._exact is not None
        missing = isinstance(error, BrokerError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        reason = "the topic does not exist" if missing else error
        used = "the records read before" if self._exact.read else "offset syncs only, like Java MirrorMaker"
        return f"cannot read {self._exact.topic}: {reason}; translating offsets with {used}"

    def _announce(self) -> None:
        if self._store.ready and (self._exact is None or self._exact_tried):
            self.ready.set()

    def _take_sync(self, record: StoredRecord) -> None:
        self._store.apply(OffsetSync.decode(record.key, record.value))

    def _take_segment(self, record: StoredRecord) -> None:
        self._offsets.apply_record(record.key, record.value, record.offset)


class _Topic:
    """One topic that is read into memory. ``read``: it was read to its end at least once."""

    def __init__(
        self,
        flow: Flow,
        cluster: Cluster,
        topic: str,
        take: Callable[[StoredRecord], None],
        *,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> None:
        self.topic = topic
        self.skipped = SkippedRecords(flow, topic)
        self.read = False
        self._cluster = cluster
        self._take = take
        self._log = CompactedLog(cluster, topic, isolation=isolation, purpose=topic)

    @property
    def last_error(self) -> ClusterError | None:
        return self._log.last_error

    async def read_to_end(self) -> None:
        """Read to the current end. Raises ClusterError, immediately if the cluster or the topic is unavailable."""
        code = (await self._cluster.metadata([self.topic])).topics[self.topic].error
        right = on_topic(Operation.READ, self.topic, self._cluster.settings.alias)
        check(code, f"read topic {self.topic}", right=right)
        await self.skipped.apply(self._log.read_to_end(timeout_ms=NOTHING_MOVED_MS), self._take, step=STEP_RECORDS)
        self.read = True

    async def follow(self) -> None:
        """Apply new records until cancelled. Raises ClusterError for permanent errors."""
        await self.skipped.apply(self._log.follow(), self._take, step=STEP_RECORDS)
