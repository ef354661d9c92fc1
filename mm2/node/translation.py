"""What the target's offsets are, kept current from the topics that tell: offset syncs, and the exact offset map."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping

from mm2.config.settings import FlowSettings
from mm2.core import internal_topics
from mm2.core.client_settings import IsolationLevel
from mm2.core.exact_offset_records import decode_segment
from mm2.core.exact_offsets import ExactOffsets
from mm2.core.formats import FormatError, OffsetSync
from mm2.core.internal_topics import Side
from mm2.core.names import Flow, TopicPartition
from mm2.core.offset_sync_store import OffsetSyncStore
from mm2.core.offset_translation import Translation
from mm2.kafka.backoff import Backoff
from mm2.kafka.cluster import Cluster
from mm2.kafka.compacted_log import CompactedLog
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import BrokerError, ClusterError, check
from mm2.kafka.stored_records import StoredRecord
from mm2.node.skipped_records import SkippedRecords

log = logging.getLogger(__name__)

EXACT = "exact"  # the value of mm2.offset.translation; the other one is compatible

STEP_RECORDS = 250
"""Records folded before the event loop gets its turn: about 5 ms."""

NOTHING_MOVED_MS = 10_000
"""A topic that gives nothing for so long while it is read to its end is told of. The reading goes on."""

RETRY_FIRST_MS = 1_000
RETRY_LONGEST_MS = 10_000
"""A cluster or topic that is away is asked again after a second, then more rarely."""


class FlowTranslation:
    """``ready`` is set once there are answers, and as good ones as are to be had.

    Invariants: (A) no answer is given before the offset syncs were read to their end once. (B) the exact map has a
    say only after it, too, was read to its end. (C) without the map, for whatever reason, the answers are Java's.

    Not for use by two tasks at a time.
    """

    def __init__(self, settings: FlowSettings, source: Cluster, target: Cluster, must_read_to_end: bool) -> None:
        """``source`` and ``target`` are clients with the roles OFFSET_SYNCS_SOURCE_CONSUMER and
        OFFSET_SYNCS_TARGET_CONSUMER. ``must_read_to_end``: earlier checkpoints are not known (`OffsetSyncStore`)."""
        self._flow = settings.flow
        self._store = OffsetSyncStore(must_read_to_end=must_read_to_end)
        location = Side(settings.source.offset_syncs_topic_location)
        self._syncs = _Fold(
            settings.flow,
            source if location is Side.SOURCE else target,
            internal_topics.offset_syncs(settings.policy, settings.flow, location).name,
            self._take_sync,
        )
        self.ready = asyncio.Event()
        self._syncs_trouble: str | None = "the offset syncs have not been read yet"
        self._offsets = ExactOffsets(window=settings.own.offset_translation_window)
        self._exact: _Fold | None = None
        self._exact_trouble: str | None = None
        self._exact_tried = False
        if settings.own.offset_translation == EXACT:
            self._exact = _Fold(
                settings.flow,
                target,
                internal_topics.exact_offsets(settings.flow).name,
                self._take_segment,
                isolation=IsolationLevel.READ_COMMITTED,
            )

    @property
    def trouble(self) -> str | None:
        """What keeps the offset syncs from being read, None when nothing does. Answers then stay what they were."""
        if self._syncs_trouble is None and self._syncs.trouble is not None:
            return f"read offset syncs: {self._syncs.trouble}"
        return self._syncs_trouble

    @property
    def exact_trouble(self) -> str | None:
        """Why answers are no better than Java's, or may be soon, though the flow asks for it; None when all is well."""
        if self._exact_trouble is None and self._exact is not None and self._exact.trouble is not None:
            return f"{self._exact.topic}: {self._exact.trouble}; what was read of it before goes on to count"
        return self._exact_trouble

    @property
    def skipped(self) -> Mapping[str, int]:
        """Records that could not be read, by topic."""
        folds = [self._syncs] if self._exact is None else [self._syncs, self._exact]
        return {fold.topic: fold.skipped.count for fold in folds}

    def translate(self, partition: TopicPartition, offset: int) -> Translation:
        """What ``offset``, the next one a group would read of source ``partition``, is on the target."""
        if self._exact is None or not self._exact.read:
            return self._store.translate(partition, offset)
        return self._offsets.translate(partition, offset, self._store.translate)

    def latest(self, partition: TopicPartition, offset: int) -> int | None:
        """The last target offset from which a group at ``offset`` misses nothing; None where the exact map does not
        tell."""
        return None if self._exact is None or not self._exact.read else self._offsets.latest(partition, offset)

    async def read_to_end(self, *, without_syncs: bool = False) -> None:
        """Take in what the topics hold now. Raises ClusterError when the offset syncs cannot be read.

        ``without_syncs``: their cluster is gone, and what the exact map knows is all there is to answer from.
        """
        if without_syncs:
            self._store.read_to_end()
        else:
            await self._read_syncs()
        if self._exact is not None:
            try:
                await self._exact.read_to_end()
            except ClusterError as error:
                self._lament(self._exact, error)
            else:
                self._exact_trouble = None
                self._tried()

    async def follow(self) -> None:
        """Take in what comes, until cancelled, through all trouble; reads to the end first where that is still to be
        done."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_syncs(), name=f"{self._flow} offset syncs")
            if self._exact is not None:
                group.create_task(self._follow_exact(self._exact), name=f"{self._flow} exact offsets")

    async def _read_syncs(self) -> None:
        await self._syncs.read_to_end()
        self._store.read_to_end()
        self._syncs_trouble = None
        self._announce()

    async def _follow_syncs(self) -> None:
        backoff = Backoff(RETRY_FIRST_MS, RETRY_LONGEST_MS)
        while True:
            try:
                if not self._store.ready:
                    await self._read_syncs()
                self._syncs_trouble = None
                backoff.reset()
                await self._syncs.follow()
            except ClusterError as error:
                sentence = f"read offset syncs: {error}"
                if sentence != self._syncs_trouble:
                    log.warning("%s: %s", self._flow, sentence)
                self._syncs_trouble = sentence
                await asyncio.sleep(backoff.next())

    async def _follow_exact(self, exact: _Fold) -> None:
        backoff = Backoff(RETRY_FIRST_MS, RETRY_LONGEST_MS)
        while True:
            try:
                if not exact.read:
                    await exact.read_to_end()
                    self._tried()
                if self._exact_trouble is not None:
                    log.info("%s: %s can be read now", self._flow, exact.topic)
                    self._exact_trouble = None
                backoff.reset()
                await exact.follow()
            except ClusterError as error:
                self._lament(exact, error)
                await asyncio.sleep(backoff.next())

    def _lament(self, exact: _Fold, error: ClusterError) -> None:
        """Say, once, what keeps the exact map from being read."""
        missing = isinstance(error, BrokerError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        words = "it does not exist" if missing else str(error)
        then = "what was read of it before goes on to count" if exact.read else "offsets are translated as Java does it"
        if self._exact_trouble is None:
            log.info("%s: %s: %s; %s", self._flow, exact.topic, words, then)
        self._exact_trouble = f"{exact.topic}: {words}; {then}"
        self._tried()

    def _tried(self) -> None:
        """The exact map was read, or cannot be for now."""
        self._exact_tried = True
        self._announce()

    def _announce(self) -> None:
        if self._store.ready and (self._exact is None or self._exact_tried):
            self.ready.set()

    def _take_sync(self, record: StoredRecord) -> None:
        self._store.apply(OffsetSync.decode(record.key, record.value))

    def _take_segment(self, record: StoredRecord) -> None:
        segment = decode_segment(record.key, record.value)
        if segment is not None:
            self._offsets.apply(segment)


class _Fold:
    """One topic on its way into memory. ``read``: it was read to its end once."""

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
    def trouble(self) -> ClusterError | None:
        return self._log.trouble

    async def read_to_end(self) -> None:
        """Raises ClusterError; at once when the cluster is away or has no such topic."""
        check((await self._cluster.metadata([self.topic])).topics[self.topic].error, f"read topic {self.topic}")
        await self._fold(self._log.read_to_end(timeout_ms=NOTHING_MOVED_MS))
        self.read = True

    async def follow(self) -> None:
        """For ever; raises ClusterError for what waiting does not heal."""
        await self._fold(self._log.follow())

    async def _fold(self, records: AsyncIterator[StoredRecord]) -> None:
        taken = 0
        async for record in records:
            try:
                self._take(record)
            except FormatError as error:
                self.skipped.skip(record, error)
            taken += 1
            if taken % STEP_RECORDS == 0:
                await asyncio.sleep(0)
