"""The leader's writer of where partitions start under ``latest``, by `mm2.core.coordination.latest_starts`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from mm2.config.settings import FlowSettings
from mm2.core.coordination import latest_starts
from mm2.core.coordination.latest_starts import TopicSelection, encode_selection, starts_at_latest
from mm2.core.naming.names import TopicPartition
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.offsets import OffsetSpec, list_offsets
from mm2.kafka.errors import ClusterError, RequestTimedOut
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.node.leader.remote_topics import Discovery
from mm2.node.source.newest_segments import NewestSegments
from mm2.node.source.source_offsets import StoredSourceOffsets
from mm2.node.store.config_store import ConfigStore

log = logging.getLogger(__name__)

ANSWER_MS = 5_000
"""How long offsets of the source are asked for: partitions without a leader must not delay the others for longer."""

WRITTEN_WITHIN_S = 30.0
"""For small batches, which are retried while partitions have no leader."""

Put = Callable[[Sequence[tuple[bytes, bytes]]], Awaitable[None]]
"""Writes records to the config topic, unless there is another leader. Raises ClusterError."""


class LatestStartWriter:
    """Stores starts after each round of discovery, before the partitions are assigned.

    (A) A partition is assigned to a source task only when its start is stored: no lane chooses it, however late it
        starts. Where Java takes over, it continues there, too, except at offset 0 (-1 is stored, for Java nothing).
    (B) Of a partition that the exact offset map knows, the stored offset is gone. Nothing is stored: its lane continues
        where the map ends (`mm2.node.source.lease_builder`), while its end would leave out what was written since.
        While the map cannot be read, partitions that are assigned already, of which offsets should exist, wait.
    (C) That ends are stored for a selection is recorded after they are: a leader that is lost before leaves the rest
        to the next one, which stores the ends as of then.
    """

    def __init__(
        self,
        settings: FlowSettings,
        *,
        source: Cluster,
        configs: ConfigStore,
        segments: NewestSegments | None,
        stored: StoredSourceOffsets,
        producer: ControlProducer,
        put: Put,
    ) -> None:
        """``segments``: the exact offset map, if the flow has one. ``producer`` writes to the target."""
        self._settings = settings
        self._source = source
        self._configs = configs
        self._segments = segments
        self._stored = stored
        self._producer = producer
        self._put = put
        self._selection = TopicSelection(
            topics=tuple(settings.source.topics),
            exclude=tuple(settings.source.topics_exclude),
            filter_class=settings.source.topic_filter_class,
        )
        self._decided: set[TopicPartition] = set()
        self._at_end: set[TopicPartition] = set()  # whose end could not be read yet

    async def decide(self, discovery: Discovery) -> Discovery:
        """Return ``discovery`` without new partitions whose start cannot be read yet: their topics have this error.

        Raises ClusterError if starts cannot be stored.
        """
        if not starts_at_latest(self._settings.clients.fetch):
            return discovery
        selected = {TopicPartition(one.topic, number) for one in discovery.topics for number in range(one.partitions)}
        errors: Mapping[TopicPartition, ClusterError] = {}
        if new := selected - self._decided:
            await self._stored.refresh()
            missing = {one for one in new if self._stored.position(one) is None}
            errors = await self._store_starts(missing - await self._copied(missing))
            self._decided |= new - errors.keys()
        if self._configs.latest_starts != self._selection and not self._at_end:
            await self._put([(latest_starts.KEY, encode_selection(self._selection))])
            await self._configs.catch_up()
        not_started = {one: error for one, error in errors.items() if one not in self._listed()}
        return _without(discovery, not_started) if not_started else discovery

    def _listed(self) -> set[TopicPartition]:
        """Return the partitions that are assigned to source tasks."""
        return {one for record in self._configs.source_tasks.records.values() for one in record.partitions}

    async def _copied(self, missing: AbstractSet[TopicPartition]) -> frozenset[TopicPartition]:
        """Return those of which there are copies: (B). Raises ClusterError."""
        gone = [one for one in missing if self._stored.is_missing(one)]
        if self._segments is None or not gone:
            return frozenset()
        await self._segments.refresh()
        unread = self._segments.error.cause
        if isinstance(unread, ClusterError) and unread.retriable and not self._listed().isdisjoint(gone):
            raise unread
        known = {one: self._segments.of(one) for one in gone}
        return frozenset(one for one, segment in known.items() if segment is not None and segment.end > 0)

    async def _store_starts(self, missing: Collection[TopicPartition]) -> Mapping[TopicPartition, ClusterError]:
        """Store where these partitions start; return why some cannot be read."""
        chosen = latest_starts.latest_starts(
            [one for one in missing if one not in self._at_end],
            listed=self._listed(),
            selection=self._selection,
            planned=self._configs.latest_starts,
        )
        at_end = chosen.at_end | self._at_end.intersection(missing)
        isolation = self._settings.clients.fetch.isolation_level
        ends = await list_offsets(self._source, at_end, OffsetSpec.LATEST, isolation=isolation, timeout_ms=ANSWER_MS)
        beginnings = await list_offsets(self._source, chosen.at_beginning, OffsetSpec.EARLIEST, timeout_ms=ANSWER_MS)
        found = {**ends, **beginnings}
        starts = {one: offset for one, offset in found.items() if isinstance(offset, int)}
        if starts:
            await self._store(starts)
            log.info(
                "%s: under latest, %d partitions start at their end, and %d that were created later at their beginning",
                *(self._settings.flow, len(starts.keys() & at_end), len(starts.keys() & chosen.at_beginning)),
            )
        errors = {one: error for one, error in found.items() if isinstance(error, ClusterError)}
        self._at_end = set(at_end & errors.keys())
        return errors

    async def _store(self, starts: Mapping[TopicPartition, int]) -> None:
        try:
            async with asyncio.timeout(WRITTEN_WITHIN_S):
                await self._stored.store(self._producer, starts)
        except TimeoutError:
            raise RequestTimedOut(
                f"write to {self._settings.storage.offsets.name}: not acknowledged within {WRITTEN_WITHIN_S:.0f} s"
            ) from None


def _without(discovery: Discovery, errors: Mapping[TopicPartition, ClusterError]) -> Discovery:
    """Return ``discovery`` without these partitions, whose topics have the error."""
    reasons = {one.topic: f"cannot read where {one} starts: {error}" for one, error in errors.items()}
    return replace(
        discovery,
        topics=tuple(replace(one, error=one.error or reasons.get(one.topic)) for one in discovery.topics),
        partitions=tuple(one for one in discovery.partitions if one not in errors),
    )
