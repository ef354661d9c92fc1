"""Translation of any position of one flow, from its two clusters, with or without its source.

The exact offset map and the names of remote topics are on the target; without it there is no answer. The source has, by
default, the offset syncs, which are used where the map has a gap, and it knows which offset a time has.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from mm2.config.clients.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.core.access.rights import on_topic
from mm2.core.naming.internal_topics import Side
from mm2.core.naming.names import TopicPartition
from mm2.core.positions.answer import PositionAnswer, Precision
from mm2.core.positions.position_names import PositionNames, PositionRejectedError, check_partition
from mm2.core.positions.positions import EARLIEST, Position, TranslatedPosition, translated
from mm2.core.positions.source_to_target import HOLE, UNKNOWN_EXTENT, Extent, hole_reason
from mm2.core.settings.client import IsolationLevel
from mm2.core.topics.acls import Operation
from mm2.kafka.admin.topic_configs import describe_topic_configs
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.offsets import OffsetSpec, list_offsets
from mm2.kafka.client.short_timeouts import ANSWER_MS, connection_error, reason, short_timeout_cluster
from mm2.kafka.errors import BrokerError, ClusterError
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.node.checkpoint.hole_causes import HoleCausesReader
from mm2.node.checkpoint.translation import FlowTranslation

STEP_POSITIONS = 250
"""Positions translated before yielding to the event loop: about 5 ms."""

SOURCE_AWAY_S = 30.0
"""How long a source that did not answer is not asked again: each attempt can take ten seconds."""

TIMESTAMP_TYPE = "message.timestamp.type"


class NoTimeError(Exception):
    """The offset of a time is unknown, because the cluster that knows it does not answer."""


class FlowPositions:
    """Translates positions of one flow. Call `read` first, and again for what has been copied since.

    ``notes`` has what makes answers less precise, of the last `read`. Not safe for use by two asyncio tasks. Methods
    raise PluginError if a custom policy or filter fails.
    """

    def __init__(
        self,
        settings: FlowSettings,
        source: Cluster,
        target: Cluster,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``source`` and ``target`` are clients with the roles OFFSET_SYNCS_SOURCE_CONSUMER and
        OFFSET_SYNCS_TARGET_CONSUMER. ``clock`` returns monotonic seconds."""
        self.settings = settings
        self.names = position_names(settings)
        self.notes: tuple[str, ...] = ()
        self._source = source
        self._target = target
        self._clock = clock
        self._translation = FlowTranslation(settings, source, target, must_read_to_end=False)
        self._causes = HoleCausesReader(settings, target)
        self._source_away: ClusterError | None = None
        self._away_since = 0.0

    @property
    def translation(self) -> FlowTranslation:
        """What it has read."""
        return self._translation

    async def read(self) -> None:
        """Read what was written since the last call. Raises ClusterError if the target does not answer."""
        target_away, _ = await asyncio.gather(connection_error(self._target), self._look_at_source())
        if target_away is not None:
            raise target_away
        away, source = self._source_away, self.settings.flow.source
        await self.read_from(away)
        if away is not None:
            effect = "; positions that the exact map does not cover are conservative" if self._syncs_on_source else ""
            self.notes = (f"cluster {source} is unreachable ({reason(source, away)}){effect}", *self.notes)

    @property
    def _syncs_on_source(self) -> bool:
        return Side(self.settings.source.offset_syncs_topic_location) is Side.SOURCE

    async def read_from(self, source_away: ClusterError | None) -> None:
        """Do the same for a caller that knows why the source does not answer (None: it does), and says so."""
        self._source_away = source_away
        notes: list[str] = []
        failure = source_away if self._syncs_on_source else None
        if failure is None:
            try:
                await self._translation.read_to_end()
            except ClusterError as error:
                failure = error
                is_missing = isinstance(error, BrokerError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                notes.append(
                    "the topic of offset syncs does not exist yet: the flow has not copied anything, or"
                    " emit.offset-syncs.enabled is false"
                    if is_missing
                    else f"failed to read offset syncs: {error}"
                )
        if failure is not None:
            await self._translation.read_to_end(without_syncs=True)
        if self._translation.exact_error is not None:
            notes.append(self._translation.exact_error)
        self.notes = tuple(notes)

    async def _look_at_source(self) -> None:
        if self._source_away is not None and self._clock() - self._away_since < SOURCE_AWAY_S:
            return
        self._source_away = await connection_error(self._source)
        self._away_since = self._clock()

    # -- which positions can be translated

    async def rejections(
        self, positions: Sequence[Position], *, reverse: bool = False
    ) -> list[PositionRejectedError | None]:
        """Return for each position why it cannot be translated, None if it can.

        Raises ClusterError.
        """
        remotes: dict[str, str | PositionRejectedError] = {}
        for topic in dict.fromkeys(one.topic for one in positions):
            try:
                there = self.names.other(topic, reverse=reverse)
                remotes[topic] = topic if reverse else there
            except PositionRejectedError as error:
                remotes[topic] = error
        partitions = await self._partitions({one for one in remotes.values() if isinstance(one, str)})
        found: list[PositionRejectedError | None] = []
        for one in positions:
            remote = remotes[one.topic]
            if isinstance(remote, PositionRejectedError):
                found.append(remote)
                continue
            try:
                check_partition(self.settings.flow, TopicPartition(remote, one.partition), partitions[remote])
                found.append(None)
            except PositionRejectedError as error:
                found.append(error)
        return found

    async def _partitions(self, topics: Iterable[str]) -> Mapping[str, int | None]:
        """Return the number of partitions of topics of the target; None: no such topic."""
        names = set(topics)
        if not names:
            return {}
        told = await self._target.metadata(names)
        missing = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)
        found: dict[str, int | None] = {}
        for name, info in told.topics.items():
            if info.error not in (0, *missing):
                right = on_topic(Operation.DESCRIBE, name, self._target.settings.alias)
                raise BrokerError(info.error, f"look up topic {name}", right=right)
            found[name] = None if info.error in missing else len(info.partitions)
        return found

    # -- answers

    async def translate(
        self, positions: Sequence[Position], *, reverse: bool = False, groups: Sequence[str] | None = None
    ) -> tuple[TranslatedPosition, ...]:
        """Return where positions on the source are on the target; with ``reverse`` the other way round.

        ``groups``: whose position each of them is. If nothing is known of a position, the answer is the beginning of
        its partition, unless its cluster does not answer. Raises PositionRejectedError.
        """
        names = {topic: self.names.other(topic, reverse=reverse) for topic in {one.topic for one in positions}}
        theres = [TopicPartition(names[one.topic], one.partition) for one in positions]
        heres = [one.topic_partition for one in positions]
        sources, remotes = (theres, heres) if reverse else (heres, theres)
        on_target, on_source = await asyncio.gather(
            _extents(self._target, set(remotes)),
            _extents(self._source, set(sources) if self._source_away is None else set()),
        )
        found: list[TranslatedPosition] = []
        for number, one in enumerate(positions):
            source = on_source.get(sources[number], UNKNOWN_EXTENT)
            target = on_target.get(remotes[number], UNKNOWN_EXTENT)
            answer = await self._answer(one, sources[number], source, target, reverse=reverse)
            group = None if groups is None else groups[number]
            found.append(translated(one, theres[number], answer, reverse=reverse, group=group))
            if number % STEP_POSITIONS == STEP_POSITIONS - 1:
                await asyncio.sleep(0)
        return tuple(found) if reverse else await self._with_causes(found, on_source)

    async def _answer(
        self, asked: Position, source_partition: TopicPartition, source: Extent, target: Extent, *, reverse: bool
    ) -> PositionAnswer:
        if asked.offset == EARLIEST:
            return PositionAnswer(
                offset=EARLIEST,
                precision=Precision.CONSERVATIVE,
                reason="the beginning of the partition, there too",
                read_again=None,
            )
        if reverse:
            return await self._translation.position_on_source(
                source_partition, asked.offset, source=source, target=target
            )
        return await self._translation.position_on_target(source_partition, asked.offset, source=source, target=target)

    async def _with_causes(
        self, rows: list[TranslatedPosition], on_source: Mapping[TopicPartition, Extent]
    ) -> tuple[TranslatedPosition, ...]:
        """Name the causes of holes more closely, as far as they are known; they are read when they are first needed."""
        if not any(one.precision is Precision.NEXT and one.reason == HOLE for one in rows):
            return tuple(rows)
        await self._causes.read()
        return tuple(
            replace(
                one,
                reason=hole_reason(
                    one.source_offset, self._causes.of(one.source), on_source.get(one.source, UNKNOWN_EXTENT)
                ),
            )
            if one.precision is Precision.NEXT and one.reason == HOLE and one.source_offset is not None
            else one
            for one in rows
        )

    async def at_time(self, partition: TopicPartition, time_ms: int, *, reverse: bool = False) -> TranslatedPosition:
        """Translate the position of the first record at or after ``time_ms`` (epoch ms) of a partition.

        The cluster of the partition is asked for its offset. If that is the source, and it does not answer, the target
        is asked for the first copy. Raises PositionRejectedError, ClusterError, and NoTimeError.
        """
        there = TopicPartition(self.names.other(partition.topic, reverse=reverse), partition.partition)
        if reverse or self._source_away is None:
            try:
                cluster = self._target if reverse else self._source
                offset = await _offset_at(cluster, partition, time_ms)
            except ClusterError as error:
                if reverse:
                    raise
                self._source_away = error
            else:
                (row,) = await self.translate([Position(partition.topic, partition.partition, offset)], reverse=reverse)
                return row
        assert self._source_away is not None
        flow = self.settings.flow
        why = f"cluster {flow.source} is unreachable"
        configs = (
            await describe_topic_configs(self._target, [there.topic], timeout_ms=ANSWER_MS, keys=[TIMESTAMP_TYPE])
        )[there.topic]
        if isinstance(configs, BrokerError):
            raise NoTimeError(f"{why}, and whether {there.topic} has the times of the source is unknown: {configs}")
        stamped = configs.get(TIMESTAMP_TYPE)
        if stamped is not None and stamped.value == "LogAppendTime":
            raise NoTimeError(
                f"{why}, and {flow.target} stamps records of {there.topic} with the time when they were copied"
                f" ({TIMESTAMP_TYPE} = LogAppendTime): give an offset, or wait for {flow.source}"
            )
        return TranslatedPosition(
            source=partition,
            source_offset=None,
            remote=there,
            remote_offset=await _offset_at(self._target, there, time_ms),
            precision=Precision.CONSERVATIVE,
            reason=f"{why}: the first copy with this time or a later one",
            read_again=None,
        )


def position_names(settings: FlowSettings) -> PositionNames:
    """Return the names of the flow's topics on both clusters."""
    return PositionNames(
        flow=settings.flow,
        topics=settings.replication_filter,
        refusal=lambda topic: settings.topic_filter.refusal(topic, "topics"),
    )


@asynccontextmanager
async def open_flow_positions(settings: FlowSettings) -> AsyncIterator[FlowPositions]:
    """Open clients with short timeouts, for positions of this flow. Connects to nothing yet.

    Raises SecuritySettingsInvalid.
    """
    source = short_timeout_cluster(settings.clients.of(ClientRole.OFFSET_SYNCS_SOURCE_CONSUMER))
    target = short_timeout_cluster(settings.clients.of(ClientRole.OFFSET_SYNCS_TARGET_CONSUMER))
    async with source, target:
        yield FlowPositions(settings, source, target)


async def _offset_at(cluster: Cluster, partition: TopicPartition, time_ms: int) -> int:
    """Return the offset of the first record at or after ``time_ms``, or the end of the partition before it was asked.

    Raises ClusterError.
    """
    committed = IsolationLevel.READ_COMMITTED  # a later record can be behind an open transaction
    found = []
    for spec in (OffsetSpec.LATEST, time_ms):
        answers = await list_offsets(cluster, [partition], spec, isolation=committed, timeout_ms=ANSWER_MS)
        answer = answers[partition]
        if isinstance(answer, ClusterError):
            raise answer
        found.append(answer)
    end, offset = found
    return end if offset < 0 else offset


async def _extents(cluster: Cluster, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Extent]:
    """Return the offsets that partitions have; what a broker does not tell is unknown."""
    if not partitions:
        return {}
    starts, ends = await asyncio.gather(
        *(list_offsets(cluster, partitions, spec, timeout_ms=ANSWER_MS) for spec in OffsetSpec)
    )
    return {one: Extent(start=_known(starts[one]), end=_known(ends[one])) for one in partitions}


def _known(offset: int | ClusterError) -> int | None:
    return offset if isinstance(offset, int) else None
