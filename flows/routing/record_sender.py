"""Sends records to the partitions of their keys."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

from flows.partition.timeouts import MISSING_TOPIC_TIMEOUT_S
from mm2.core.mirror1.user_class import SourceRecord, TargetRecord
from mm2.core.naming.names import TopicPartition
from mm2.core.wire.murmur2 import partition_of
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterClosed, ClusterError
from mm2.kafka.logs.control_producer import BufferFull, ControlProducer
from mm2.kafka.protocol.error_codes import ErrorCode


class SentRecord(NamedTuple):
    """A record at the producer. ``stored``: its offset, once the target has it."""

    place: TopicPartition
    stored: asyncio.Future[int]


class RecordSender:
    """Chooses the partitions, and waits for topics that are being created and for room in the producer's buffer."""

    def __init__(self, target: Cluster, producer: ControlProducer) -> None:
        self._target = target
        self._producer = producer
        self._missing: dict[str, tuple[float, ClusterError]] = {}  # topics: since when, and the last error

    async def send(self, source: SourceRecord, record: TargetRecord) -> SentRecord:
        """Send a record, when there is room for it.

        Raises BrokerError for a topic that does not exist and a record that is too large, and ClusterClosed.
        """
        number = record.partition if record.partition is not None else await self._partition_for(source, record)
        while True:
            try:
                stored = self._producer.send(
                    record.topic,
                    number,
                    record.key,
                    record.value,
                    headers=record.headers,
                    timestamp_ms=record.timestamp_ms,
                )
                return SentRecord(TopicPartition(record.topic, number), stored)
            except BufferFull:
                await self._producer.room()

    def why_unsent(self, record: TargetRecord) -> ClusterError | None:
        """Return why the record cannot be sent yet, as far as that is known."""
        _, missing = self._missing.get(record.topic, (0.0, None))
        return missing if record.partition is None and missing is not None else self._producer.trouble

    def why_unanswered(self, sent: SentRecord) -> ClusterError | None:
        """Return why the target has not acknowledged the record yet, as far as that is known."""
        return self._producer.trouble_of(sent.place)

    async def _partition_for(self, source: SourceRecord, record: TargetRecord) -> int:
        """Return the partition of the record's key. Without a key, that of its partition and offset on the source: all
        partitions get their share, and a record that is written again goes where it was."""
        count = await self._count(record.topic)
        if record.key is not None:
            return partition_of(record.key, count)
        return (source.partition + source.offset) % count

    async def _count(self, topic: str) -> int:
        """Return the number of partitions of a topic of the target, after waiting for the target.

        Raises BrokerError if it rejects the topic, or has not had it for `MISSING_TOPIC_TIMEOUT_S`: brokers learn of a
        new topic one after the other.
        """
        while True:
            info = self._target.cached_topic(topic)
            if info is not None and info.partitions:
                self._missing.pop(topic, None)
                return len(info.partitions)
            try:
                await self._target.refresh([topic])
            except ClusterClosed:
                raise
            except ClusterError as failure:
                self._missing[topic] = time.monotonic(), failure
                continue  # refresh has its own backoff
            info = self._target.cached_topic(topic)
            if info is None or not info.error:
                continue
            error = BrokerError(info.error, f"find topic {topic} on the target")
            now = time.monotonic()
            since = self._missing[topic][0] if topic in self._missing else now
            self._missing[topic] = since, error
            is_unknown = info.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if (is_unknown and now - since > MISSING_TOPIC_TIMEOUT_S) or (not is_unknown and not error.retriable):
                raise error
