"""What a slot's lane is given: its partitions, where each goes on, and where to write down how far it is."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from mm2.config.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.core.exact_offset_records import SEGMENT_RANGES, UNKNOWN_IDS, TopicIds
from mm2.core.internal_topics import Side, offset_syncs
from mm2.core.lease import ExactOffsetsLease, OffsetsLease, OffsetSyncsLease, PartitionLease, SlotLease
from mm2.core.made_anew import remote_made_anew, source_made_anew
from mm2.core.names import TopicPartition
from mm2.core.slot_records import SlotRecord
from mm2.kafka.admin import ClusterAdmin
from mm2.node.newest_segments import NewestSegment, NewestSegments
from mm2.node.source_offsets import SourceOffsets
from mm2.node.translation import EXACT

log = logging.getLogger(__name__)


class SlotLeases:
    """Builds leases from what is stored and what the leader published.

    (A) A stored offset is given only with the topic it speaks of. It is void when the exact offsets were written of a
        topic of another id, or when the topic's id changed while this node looked and no beginning was stored since.
        (Without exact offsets nothing remembers an id from one node to the next.)
    """

    def __init__(self, settings: FlowSettings, target: ClusterAdmin, offsets: SourceOffsets) -> None:
        self._settings = settings
        self._flow = settings.flow
        self._offsets = offsets
        self._segments = NewestSegments(settings, target) if settings.own.offset_translation == EXACT else None
        self._topic_ids: dict[str, TopicIds] = {}
        self._void: dict[TopicPartition, int] = {}  # void until more beginnings than these were stored
        self._found_anew: list[str] = []

    def take_over(self, settings: FlowSettings) -> None:
        """Go on with other settings. What a lease holds of them is the same: a lane does not follow it, so that all of
        it reaches the flow (`mm2.config.reach`)."""
        self._settings = settings
        if self._segments is not None:
            self._segments.take_over(settings)

    @property
    def warnings(self) -> list[str]:
        """What a person should know though all runs."""
        trouble = self._segments.trouble if self._segments is not None else None
        return self._found_anew + ([] if trouble is None else [trouble])

    def told(self, record: SlotRecord) -> set[str]:
        """The leader published a list, with the ids of its topics; returns the topics that are others of the same name
        now."""
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
                self._warn(source_made_anew(topic, self._flow.source))
                for partition in record.partitions:
                    if partition.topic == topic:
                        self._void[partition] = self._offsets.beginnings(partition)
            else:
                self._warn(remote_made_anew(self._remote_topic(topic), self._flow.target))
        return changed

    async def refresh(self) -> None:
        """Read what is stored now. Raises ClusterError when source offsets cannot be read."""
        await self._offsets.refresh()
        if self._segments is not None:
            await self._segments.refresh()

    def lease(
        self, slot: int, partitions: Iterable[TopicPartition], *, epoch: int, restart: int, drain: bool
    ) -> SlotLease:
        """By what was read at the last `refresh`."""
        clients, settings = self._settings.clients, self._settings
        return SlotLease(
            flow=self._flow,
            slot=slot,
            epoch=epoch,
            restart=restart,
            source=clients.of(ClientRole.REPLICATION_CONSUMER, slot),
            fetch=clients.fetch,
            target=clients.of(ClientRole.RECORDS, slot),
            produce=clients.produce,
            offsets=OffsetsLease(
                client=clients.of(ClientRole.OFFSETS),
                topic=settings.storage.offsets.name,
                partitions=self._offsets.partitions,
                flush_interval_ms=settings.worker.offset_flush_interval_ms,
            ),
            offset_syncs=self._offset_syncs(slot),
            exact_offsets=self._exact_offsets(),
            partitions=tuple(self._partition(partition) for partition in sorted(partitions)),
            drain=drain,
        )

    def _partition(self, partition: TopicPartition) -> PartitionLease:
        ids = self._topic_ids.get(partition.topic, UNKNOWN_IDS)
        segment = self._segments.of(partition) if self._segments is not None else None
        remote_topic = self._remote_topic(partition.topic)
        made_anew = self._is_void(partition, ids, segment)
        if made_anew:
            self._warn(source_made_anew(partition.topic, self._flow.source))
        elif segment is not None and not ids.may_be(segment.topic_ids):
            self._warn(remote_made_anew(remote_topic, self._flow.target))
        return PartitionLease(
            topic=partition.topic,
            partition=partition.partition,
            remote_topic=remote_topic,
            start_offset=0 if made_anew else self._offsets.position(partition),
            topic_ids=ids,
            made_anew=made_anew,
            last_segment=segment.text if segment is not None else None,
        )

    def _remote_topic(self, topic: str) -> str:
        return self._settings.policy.format_remote_topic(self._flow.source, topic)

    def _is_void(self, partition: TopicPartition, ids: TopicIds, segment: NewestSegment | None) -> bool:
        """Whether the stored offset is that of a topic that is gone."""
        if segment is not None and not TopicIds(source=ids.source).may_be(segment.topic_ids):
            return True
        return self._void.get(partition) == self._offsets.beginnings(partition)

    def _offset_syncs(self, slot: int) -> OffsetSyncsLease | None:
        source = self._settings.source
        if not source.emit_offset_syncs_enabled:
            return None
        topic = offset_syncs(self._settings.policy, self._flow, Side(source.offset_syncs_topic_location))
        role = (
            ClientRole.OFFSET_SYNCS_SOURCE_PRODUCER
            if topic.side is Side.SOURCE
            else ClientRole.OFFSET_SYNCS_TARGET_PRODUCER
        )
        client = self._settings.clients.of(role, slot)
        return OffsetSyncsLease(client=client, topic=topic.name, lag_max=source.offset_lag_max)

    def _exact_offsets(self) -> ExactOffsetsLease | None:
        if self._segments is None or self._segments.trouble is not None:
            return None
        return ExactOffsetsLease(
            client=self._settings.clients.of(ClientRole.OFFSETS),
            topic=self._segments.topic,
            slots=self._settings.own.offset_translation_window // SEGMENT_RANGES,
        )

    def _warn(self, sentence: str) -> None:
        if sentence not in self._found_anew:
            log.warning("%s: %s", self._flow, sentence)
            self._found_anew.append(sentence)
