"""Builder of the lease of a source task: its partitions, their start offsets, and where offsets are stored."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping

from mm2.config.clients.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.core.assignment.source_task_records import SourceTaskRecord
from mm2.core.coordination.repeats import Repeats
from mm2.core.coordination.skips import NO_SKIPS, Skips
from mm2.core.lanes.accumulated_progress import PartitionStates
from mm2.core.lanes.lease import (
    DeadLettersLease,
    ExactOffsetsLease,
    LaneQuery,
    LossesLease,
    OffsetsLease,
    OffsetSyncsLease,
    PartitionLease,
    SourceTaskLease,
    TaskProducer,
)
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.internal_topics import DEAD_LETTER_CONFIGS, Side, dead_letters, offset_syncs
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.connect_offsets import lost_offset, unknown_copies
from mm2.core.offsets.exact_offset_records import UNKNOWN_IDS, TopicIds
from mm2.core.topics.topic_recreated import remote_topic_recreated, source_topic_recreated
from mm2.kafka.admin.cluster_admin import ClusterAdmin
from mm2.kafka.admin.internal_topics import ensure_internal_topic
from mm2.kafka.errors import ClusterError
from mm2.kafka.retrying import API_TIMEOUT_MS
from mm2.node.checkpoint.translation import EXACT
from mm2.node.common.current_error import CurrentError
from mm2.node.source.newest_segments import NewestSegment, NewestSegments
from mm2.node.source.remote_copies import FoundCopies, RemoteCopies
from mm2.node.source.source_offsets import StoredSourceOffsets
from mm2.node.source.uncommitted_copies import StoredEnd, remote_position
from mm2.node.store.loss_store import LossStore

log = logging.getLogger(__name__)


PATIENCE_MS = 2_000
"""Limit for creating the topic while a lane waits for its lease; the lane can copy without it."""


class DeadLetterTopic:
    """Creates the topic if errors.tolerance is all. ``error`` is why it cannot be used."""

    def __init__(self, settings: FlowSettings, target: ClusterAdmin) -> None:
        self._source = settings.source
        self._target = target
        self._topic = dead_letters(settings.flow, name=settings.source.dead_letter_topic_name)
        self._patience_ms = API_TIMEOUT_MS
        self._is_there = False
        self._is_wanted = settings.source.errors_tolerance == "all"
        self.error = CurrentError(log, settings.flow)

    @property
    def lease(self) -> DeadLettersLease | None:
        """The topic as lanes use it; None: records that cannot be copied stop their partitions."""
        if not self._is_wanted:
            return None
        return DeadLettersLease(topic=self._topic.name, context_headers=self._source.dead_letter_context_headers)

    async def ensure(self) -> None:
        """Create the topic unless it exists. The first call may take longer, as no lane waits for it."""
        if not self._is_wanted or self._is_there:
            return
        patience_ms, self._patience_ms = self._patience_ms, PATIENCE_MS
        try:
            await ensure_internal_topic(
                self._target,
                self._topic,
                replication_factor=self._source.dead_letter_topic_replication_factor,
                settings=DEAD_LETTER_CONFIGS,
                timeout_ms=patience_ms,
            )
        except ClusterError as error:
            self.error.report(
                f"cannot create dead-letter topic {self._topic.name}: {error}; a record that cannot be copied stops"
                " its partition until the topic exists",
                error,
            )
        else:
            self._is_there = True
            self.error.clear()


class LeaseBuilder:
    """Builds leases from stored offsets and the lists of the leader.

    (A) A stored offset is used only for the topic that it belongs to. It is void if the exact offsets were written for
        a topic with another ID, or if the topic's ID changed during this session and no restart from the beginning has
        been stored since. (Without exact offsets, topic IDs are not kept from one node to the next.)
    (B) If no offset is stored although the exact offsets show copies of the same topics, the stored offset is gone: the
        offsets topic was deleted, or its records expired. Copying then continues where the exact offsets end: they are
        written before the stored offset, so nothing is left out. A tombstone is a decision to start again.
    (C) If neither tells where to continue, but the target has copies (`RemoteCopies`), the partition is ``held``: it is
        in no lease until an operator decides. Lanes store a start before they send anything, so the copies are older.
    """

    def __init__(
        self, settings: FlowSettings, target: ClusterAdmin, offsets: StoredSourceOffsets, losses: LossStore
    ) -> None:
        self._losses = losses
        self._settings = settings
        self._flow = settings.flow
        self._offsets = offsets
        self._segments = NewestSegments(settings, target) if settings.own.offset_translation == EXACT else None
        self._dead_letters = DeadLetterTopic(settings, target)
        self._topic_ids: dict[str, TopicIds] = {}
        self._void: dict[TopicPartition, int] = {}  # void until more restarts from the beginning were stored
        self._recreation_warnings: list[str] = []
        self._recovered: dict[TopicPartition, int] = {}  # where partitions continue whose stored offset is gone
        self._copies = RemoteCopies(settings, target.cluster)
        self.held: PartitionStates = {}

    def settings_changed(self, settings: FlowSettings) -> None:
        """Use new settings. Leases do not change: settings that affect lanes restart the flow (`UpdateMode.FLOW`)."""
        self._settings = settings
        if self._segments is not None:
            self._segments.settings = settings

    @property
    def warnings(self) -> list[str]:
        """Warnings about recreated topics, stored offsets, exact offsets and the dead-letter topic."""
        errors = [self._dead_letters.error.text, self._segments.error.text if self._segments is not None else None]
        recovered = [_recovered_text(self._recovered, self._offsets.topic)] if self._recovered else []
        return self._recreation_warnings + recovered + [error for error in errors if error is not None]

    def take_topic_ids(self, record: SourceTaskRecord) -> set[str]:
        """Update the topic IDs from a list of the leader; return the topics that were recreated."""
        changed = set()
        for topic, now in record.topic_ids.items():
            before = self._topic_ids.get(topic, UNKNOWN_IDS)
            if now == before:
                continue
            self._topic_ids[topic] = now.completed_by(before)
            if now.may_be(before):
                continue
            changed.add(topic)
            if not TopicIds(source=now.source).may_be(before):
                self._warn(source_topic_recreated(topic, self._flow.source))
                for partition in record.partitions:
                    if partition.topic == topic:
                        self._void[partition] = self._offsets.beginnings(partition)
            else:
                self._warn(remote_topic_recreated(self._remote_topic(topic), self._flow.target))
        return changed

    async def refresh(self, listed: Collection[TopicPartition]) -> None:
        """Read the stored offsets, segments, and losses that stop something, and find out which partitions are held.

        ``listed``: the partitions that leases can contain. Raises ClusterError when source offsets cannot be read, or
        those losses.
        """
        await self._losses.refresh()
        await self._offsets.refresh()
        await self.refresh_exact_offsets()
        await self._hold(listed)
        await self._dead_letters.ensure()

    async def _hold(self, listed: Collection[TopicPartition]) -> None:
        undecided = {one for one in listed if self._lacks_start(one)}
        found = await self._copies.find(undecided) if undecided else FoundCopies()
        if found.copied:  # by a lane of this node, if it has stored a start since: see (C)
            await self._offsets.refresh()
        copied = set(filter(self._lacks_start, found.copied))
        before, self.held = self.held, {}
        for one in sorted(copied):
            self.held[one] = TaskState.FAILED, self._lost_offset(one)
        for one, error in found.unknown.items():
            self.held[one] = TaskState.WAITING, unknown_copies(one, self._remote_partition(one), error)
        if new := copied - {one for one, (state, _) in before.items() if state is TaskState.FAILED}:
            log.error("%s: %s%s", self._flow, self._lost_offset(min(new)), _and_more(len(new) - 1))
        if let_go := before.keys() & listed - self.held.keys():  # others are not listed any more
            log.info("%s: %s%s is no longer held back", self._flow, min(let_go), _and_more(len(let_go) - 1))

    def _lacks_start(self, partition: TopicPartition) -> bool:
        """Return whether nothing tells where the partition continues: neither offsets nor a decision."""
        ids = self._topic_ids.get(partition.topic, UNKNOWN_IDS)
        segment = self._segments.of(partition) if self._segments is not None else None
        if not self._offsets.is_missing(partition) or self._is_void(partition, ids, segment):
            return False
        return self._position(partition, ids, segment) is None

    def _lost_offset(self, partition: TopicPartition) -> str:
        return lost_offset(
            partition,
            self._remote_partition(partition),
            flow=self._flow,
            offsets_topic=self._offsets.topic,
            fetch=self._settings.clients.fetch,
        )

    def _remote_partition(self, partition: TopicPartition) -> TopicPartition:
        return TopicPartition(self._remote_topic(partition.topic), partition.partition)

    async def refresh_exact_offsets(self) -> None:
        """Read the segments, and by that find out whether exact offsets can be used (`lacks_exact_offsets`)."""
        if self._segments is not None:
            await self._segments.refresh()

    def remote(self, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """Return the remote partitions. Raises PluginError if the replication policy cannot name a topic."""
        found: dict[str, list[int]] = {}
        for one in partitions:
            found.setdefault(one.topic, []).append(one.partition)
        return frozenset(
            TopicPartition(remote, number)
            for topic, numbers in found.items()
            for remote in [self._remote_topic(topic)]
            for number in numbers
        )

    def stored_ends(self, partitions: Iterable[TopicPartition], repeats: Repeats) -> list[StoredEnd]:
        """Return where copying had arrived, for the partitions where the exact offsets tell it.

        Not for those that are copied again: what the target has behind that place can be the first copies.
        """
        found = []
        for partition in partitions:
            segment = self._segments.of(partition) if self._segments is not None else None
            ids = self._topic_ids.get(partition.topic, UNKNOWN_IDS)
            position = self._position(partition, ids, segment)
            if segment is None or not position or repeats.repeats(partition, position):
                continue
            if not ids.may_be(segment.topic_ids) or self._is_void(partition, ids, segment):
                continue
            remote = remote_position(segment.decoded, position)
            if remote is not None:
                end = TopicPartition(self._remote_topic(partition.topic), partition.partition)
                found.append(StoredEnd(source=partition, remote=end, position=position, remote_position=remote))
        return found

    def lease(
        self,
        source_task: int,
        partitions: Iterable[TopicPartition],
        *,
        epoch: int,
        restart: int,
        producer: TaskProducer | None,
        drain: bool,
        skips: Skips = NO_SKIPS,
        repeats: Repeats | None = None,
        query: LaneQuery | None = None,
    ) -> SourceTaskLease:
        """Return the lease, according to the last `refresh`. ``query``: for all records of these partitions.
        ``repeats``: of partitions that operators have had copied again; None: there are none.

        Raises PluginError as `remote` does.
        """
        clients, settings = self._settings.clients, self._settings
        recovered = len(self._recovered)
        again = Repeats() if repeats is None else repeats
        leased = tuple(self._partition(one, skips.offsets.get(one), again) for one in sorted(partitions))
        if len(self._recovered) > recovered:
            log.warning("%s: %s", self._flow, _recovered_text(self._recovered, self._offsets.topic))
        return SourceTaskLease(
            flow=self._flow,
            source_task=source_task,
            epoch=epoch,
            restart=restart,
            source=clients.of(ClientRole.REPLICATION_CONSUMER, source_task),
            fetch=clients.fetch,
            target=clients.of(ClientRole.RECORDS, source_task),
            produce=clients.produce,
            offsets=OffsetsLease(
                client=clients.of(ClientRole.OFFSETS),
                topic=settings.storage.offsets.name,
                partitions=self._offsets.partitions,
                source_alias=settings.aliases.source,
                flush_interval_ms=settings.worker.offset_flush_interval_ms,
            ),
            offset_syncs=self._offset_syncs(source_task),
            exact_offsets=self._exact_offsets(),
            losses=LossesLease(
                client=clients.of(ClientRole.OFFSETS),
                topic=self._losses.topic,
                on_data_loss=self._losses.on_data_loss,
            ),
            partitions=leased,
            producer=producer,
            transactions=settings.transactions if producer is not None else None,
            drain=drain,
            dead_letters=self._dead_letters.lease,
            query=query,
            validates_partitions=settings.own.validate_partitions,
        )

    def _partition(self, partition: TopicPartition, skip_offset: int | None, repeats: Repeats) -> PartitionLease:
        ids = self._topic_ids.get(partition.topic, UNKNOWN_IDS)
        segment = self._segments.of(partition) if self._segments is not None else None
        remote_topic = self._remote_topic(partition.topic)
        topic_recreated = self._is_void(partition, ids, segment)
        position = self._offsets.position(partition)
        if topic_recreated:
            self._warn(source_topic_recreated(partition.topic, self._flow.source))
        elif segment is not None and position is not None and not ids.may_be(segment.topic_ids):
            self._warn(remote_topic_recreated(remote_topic, self._flow.target))
        start = 0 if topic_recreated else self._position(partition, ids, segment)
        if start is not None and position is None and not topic_recreated:
            self._recovered[partition] = start
        return PartitionLease(
            topic=partition.topic,
            partition=partition.partition,
            remote_topic=remote_topic,
            start_offset=start,
            topic_ids=ids,
            topic_recreated=topic_recreated,
            last_segment=segment.text if segment is not None else None,
            uncopied_of_deleted_topic=(position, position) if topic_recreated and position is not None else None,
            stopped_by=self._losses.stopped_by(partition),
            accepted_loss=self._losses.accepted(partition),
            recorded_loss=self._losses.book.newest(partition),
            leader_epochs=segment.epochs_before(start) if segment is not None and not topic_recreated else (),
            skip_offset=skip_offset,
            repeat=repeats.number(partition),
            copied_until=0 if topic_recreated else repeats.copied_until(partition, ids.source),
        )

    def _position(self, partition: TopicPartition, ids: TopicIds, segment: NewestSegment | None) -> int | None:
        """Return the stored position, or that of the exact offsets if it is gone: (B)."""
        position = self._offsets.position(partition)
        if position is not None or segment is None or not self._offsets.is_missing(partition):
            return position
        return segment.end if segment.end > 0 and ids.may_be(segment.topic_ids) else None

    def _remote_topic(self, topic: str) -> str:
        return self._settings.policy.format_remote_topic(self._settings.aliases.source, topic)

    def _is_void(self, partition: TopicPartition, ids: TopicIds, segment: NewestSegment | None) -> bool:
        """Return whether the stored offset belongs to a deleted topic of the same name."""
        if segment is not None and not TopicIds(source=ids.source).may_be(segment.topic_ids):
            return True
        return self._void.get(partition) == self._offsets.beginnings(partition)

    def _offset_syncs(self, source_task: int) -> OffsetSyncsLease | None:
        source = self._settings.source
        if not source.emit_offset_syncs_enabled:
            return None
        topic = offset_syncs(self._settings.policy, self._settings.aliases, Side(source.offset_syncs_topic_location))
        role = (
            ClientRole.OFFSET_SYNCS_SOURCE_PRODUCER
            if topic.side is Side.SOURCE
            else ClientRole.OFFSET_SYNCS_TARGET_PRODUCER
        )
        client = self._settings.clients.of(role, source_task)
        return OffsetSyncsLease(client=client, topic=topic.name, lag_max=source.offset_lag_max)

    @property
    def lacks_exact_offsets(self) -> bool:
        """Whether leases do not contain the exact offsets topic because it cannot be used."""
        return self._segments is not None and self._segments.error.text is not None

    def _exact_offsets(self) -> ExactOffsetsLease | None:
        if self._segments is None or self.lacks_exact_offsets:
            return None
        return ExactOffsetsLease(
            client=self._settings.clients.of(ClientRole.OFFSETS),
            topic=self._segments.topic,
        )

    def _warn(self, warning: str) -> None:
        if warning not in self._recreation_warnings:
            log.warning("%s: %s", self._flow, warning)
            self._recreation_warnings.append(warning)


def _recovered_text(positions: Mapping[TopicPartition, int], topic: str) -> str:
    first, offset = next(iter(positions.items()))
    return (
        f"the stored offset of {first} is gone from {topic}; continuing at offset {offset}, where the exact offset map"
        f" ends{_and_more(len(positions) - 1)}"
    )


def _and_more(count: int) -> str:
    return f" (and {count} more {'partition' if count == 1 else 'partitions'})" if count else ""
