"""Sends records to the partitions of their keys."""

from __future__ import annotations

import asyncio
import time

from mm2.core.mirror1.user_class import SourceRecord, TargetRecord
from mm2.core.wire.murmur2 import partition_of
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterClosed, ClusterError
from mm2.kafka.logs.control_producer import BufferFull, ControlProducer
from mm2.kafka.protocol.error_codes import ErrorCode

UNKNOWN_S = 30.0
"""How long a topic of the target may be unknown, since it was possibly created a moment ago."""


class RecordSender:
    """Chooses the partitions, and waits for topics that are being created and for room in the producer's buffer."""

    def __init__(self, target: Cluster, producer: ControlProducer) -> None:
        self._target = target
        self._producer = producer

    async def send(self, source: SourceRecord, record: TargetRecord) -> asyncio.Future[int]:
        """Send a record, when there is room for it.

        Raises BrokerError for a topic that does not exist and a record that is too large, and ClusterClosed.
        """
        number = record.partition if record.partition is not None else await self._partition_for(source, record)
        while True:
            try:
                return self._producer.send(
                    record.topic,
                    number,
                    record.key,
                    record.value,
                    headers=record.headers,
                    timestamp_ms=record.timestamp_ms,
                )
            except BufferFull:
                await self._producer.room()

    async def _partition_for(self, source: SourceRecord, record: TargetRecord) -> int:
        """Return the partition of the record's key. Without a key, that of its partition and offset on the source: all
        partitions get their share, and a record that is written again goes where it was."""
        count = await self._count(record.topic)
        if record.key is not None:
            return partition_of(record.key, count)
        return (source.partition + source.offset) % count

    async def _count(self, topic: str) -> int:
        """Return the number of partitions of a topic of the target, after waiting for the target.

        Raises BrokerError if it rejects the topic, or does not have it for `UNKNOWN_S`: brokers learn of a new topic
        one after the other.
        """
        deadline = time.monotonic() + UNKNOWN_S
        while True:
            info = self._target.cached_topic(topic)
            if info is not None and info.partitions:
                return len(info.partitions)
            try:
                await self._target.refresh([topic])
            except ClusterClosed:
                raise
            except ClusterError:
                continue  # refresh has its own backoff
            info = self._target.cached_topic(topic)
            if info is None or not info.error:
                continue
            error = BrokerError(info.error, f"find topic {topic} on the target")
            is_unknown = info.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if (is_unknown and time.monotonic() > deadline) or (not is_unknown and not error.retriable):
                raise error
