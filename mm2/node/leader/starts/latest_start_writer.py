"""The leader's writer of where partitions start under ``latest``, by `mm2.core.coordination.latest_starts`."""

from __future__ import annotations

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
from mm2.kafka.errors import ClusterError
from mm2.node.leader.remote_topics import Discovery
from mm2.node.source.newest_segments import NewestSegments
from mm2.node.source.remote_copies import RemoteCopies
from mm2.node.source.source_offsets import StoredSourceOffsets
from mm2.node.store.config_store import ConfigStore

log = logging.getLogger(__name__)

ANSWER_MS = 5_000
"""How long offsets of the source are asked for: partitions without a leader must not delay the others for longer."""

Put = Callable[[Sequence[tuple[bytes, bytes | None]], TopicPartition | None], Awaitable[None]]
"""Writes records to a partition, or to the config topic, unless there is another leader. Raises ClusterError."""


class LatestStartWriter:
    """Stores starts after each round of discovery, before the partitions are assigned.

    (A) A partition is assigned to a source task only when its start is stored: no lane chooses it, however late it
        starts. Where Java takes over, it continues there, too, except at offset 0 (-1 is stored, for Java nothing).
    (B) Of a partition that the exact offset map knows, the stored offset is gone. Nothing is stored: its lane continues
        where the map ends (`mm2.node.source.lease_builder`), while its end would leave out what was written since.
        While the map cannot be read, a partition without a stored offset waits. The same applies to one of which the
        target has copies that the map does not know: the node that gets it holds it until an operator decides.
    (C) That ends are stored for a selection is recorded after they are: a leader that is lost before leaves the rest
        to the next one, which stores the ends as of then.
    (D) A leader that has been replaced stores nothing, if the cluster allows transactions: what lanes have stored since
        is newer, however long this one was suspended.
    """

    def __init__(
        self,
        settings: FlowSettings,
        *,
        source: Cluster,
        configs: ConfigStore,
        segments: NewestSegments | None,
        copies: RemoteCopies,
        stored: StoredSourceOffsets,
        put: Put,
    ) -> None:
        """``segments``: the exact offset map, if the flow has one."""
        self._settings = settings
        self._source = source
        self._configs = configs
        self._segments = segments
        self._copies = copies
        self._stored = stored
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
        unread: Mapping[TopicPartition, ClusterError] = {}
        if new := selected - self._decided:
            await self._stored.refresh()
            missing = {one for one in new if self._stored.position(one) is None}
            copied, unread = await self._copied(missing)
            errors = {**await self._store_starts(missing - copied - unread.keys()), **unread}
            self._decided |= new - errors.keys()
        if self._configs.latest_starts != self._selection and not self._at_end and not unread:
            await self._put([(latest_starts.KEY, encode_selection(self._selection))], None)
            await self._configs.catch_up()
        not_started = {one: error for one, error in errors.items() if one not in self._listed()}
        return _without(discovery, not_started) if not_started else discovery

    def _listed(self) -> set[TopicPartition]:
        """Return the partitions that are assigned to source tasks."""
        return {one for record in self._configs.source_tasks.records.values() for one in record.partitions}

    async def _copied(
        self, missing: AbstractSet[TopicPartition]
    ) -> tuple[frozenset[TopicPartition], Mapping[TopicPartition, ClusterError]]:
        """Return those of which there are copies, and why that is unknown of others: (B).

        A map that cannot be used until someone changes something says nothing: a flow without it starts, too.
        """
        gone = frozenset(one for one in missing if self._stored.is_missing(one))
        known: frozenset[TopicPartition] = frozenset()
        if self._segments is not None and gone:
            await self._segments.refresh()
            cause = self._segments.error.cause
            if isinstance(cause, ClusterError) and cause.retriable:
                return frozenset(), dict.fromkeys(gone, cause)
            segments = {one: self._segments.of(one) for one in gone}
            known = frozenset(one for one, segment in segments.items() if segment is not None and segment.end > 0)
        found = await self._copies.find(gone - known)
        return known | found.copied, found.unknown

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
        for number, records in self._stored.records(starts).items():
            await self._put(records, TopicPartition(self._stored.topic, number))


def _without(discovery: Discovery, errors: Mapping[TopicPartition, ClusterError]) -> Discovery:
    """Return ``discovery`` without these partitions, whose topics have the error."""
    reasons = {one.topic: f"cannot read where {one} starts: {error}" for one, error in errors.items()}
    return replace(
        discovery,
        topics=tuple(replace(one, error=one.error or reasons.get(one.topic)) for one in discovery.topics),
        partitions=tuple(one for one in discovery.partitions if one not in errors),
    )
