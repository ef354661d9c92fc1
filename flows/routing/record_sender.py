"""Sends records to the partitions of their keys."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from flows.partition.retry_state import RetryState
from flows.partition.timeouts import TIMEOUTS, Timeouts
from flows.routing.new_topics import NewTopics
from flows.target.produce_errors import of_record
from mm2.core.access.rights import on_topic
from mm2.core.mirror1.user_class import SourceRecord, TargetRecord
from mm2.core.naming.names import TopicPartition
from mm2.core.topics.acls import Operation
from mm2.core.wire.murmur2 import partition_of
from mm2.kafka.backoff import Backoff
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterClosed, ClusterError
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.kafka.protocol.error_codes import ErrorCode


class RoutedRetryLimit:
    """Ends the retries of routed records after the same limits as those of batches that are passed through.

    Implements `mm2.kafka.logs.control_producer.RetryLimit` with the rules of `RetryState`.
    """

    def __init__(self, timeouts: Timeouts = TIMEOUTS) -> None:
        self._state = RetryState(Backoff(0, 0), timeouts)  # the producer has its own backoff

    def is_exceeded(self, error: ClusterError, now: float) -> bool:
        """Count a failure, and return whether the records should fail with it."""
        is_exceeded = self._state.is_exhausted(of_record(error), now)
        self._state.record_failure(now)
        return is_exceeded

    def reset(self) -> None:
        """The target has stored a batch."""
        self._state.reset()


class TopicUnknown(Exception):
    """The number of partitions of a topic is not known yet."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(topic)


class TopicMissing(BrokerError):
    """The target does not have a topic. It can be a new one: brokers learn of it one after the other."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"find topic {topic} on the target")


class RecordSender:
    """Chooses the partitions, and looks up the topics on the target."""

    def __init__(
        self,
        target: Cluster,
        producer: ControlProducer,
        new_topics: NewTopics | None,
        *,
        missing_topic_s: float = TIMEOUTS.missing_topic_s,
    ) -> None:
        """``new_topics`` None: topics that the target does not have are awaited, not created."""
        self._missing_topic_s = missing_topic_s
        self._target = target
        self._producer = producer
        self._new_topics = new_topics
        self._places: dict[str, tuple[TopicPartition, ...]] = {}  # one object for all records of a partition
        self._missing: dict[str, tuple[float, ClusterError]] = {}  # topics: since when, and the last error

    def target_partitions(self, source: SourceRecord, records: Sequence[TargetRecord]) -> list[TopicPartition]:
        """Return the partitions for what was made of a record.

        A record without a key goes to the partition for its partition and offset on the source: all partitions get
        their share, and a record that is written again goes where it was. Raises TopicUnknown.
        """
        return [self._place(source, record) for record in records]

    def _place(self, source: SourceRecord, record: TargetRecord) -> TopicPartition:
        topic, key = record.topic, record.key
        if record.partition is not None and self._new_topics is None:
            return TopicPartition(topic, record.partition)
        info = self._target.cached_topic(topic)
        if info is None or not info.partitions:
            raise TopicUnknown(topic)
        if record.partition is not None:
            return TopicPartition(topic, record.partition)
        places, count = self._places.get(topic, ()), len(info.partitions)
        if len(places) != count:
            places = self._places[topic] = tuple(TopicPartition(topic, number) for number in range(count))
        return places[partition_of(key, count) if key is not None else (source.partition + source.offset) % count]

    def send(self, record: TargetRecord, place: TopicPartition) -> asyncio.Future[int]:
        """Send a record; the future has its offset once the target has it.

        Raises BufferFull, BrokerError if it is too large, and ClusterClosed.
        """
        return self._producer.send(
            place.topic,
            place.partition,
            record.key,
            record.value,
            headers=record.headers,
            timestamp_ms=record.timestamp_ms,
        )

    async def room(self) -> None:
        """Wait, after BufferFull, until there is more room."""
        await self._producer.room()

    async def look_up(self, topic: str) -> None:
        """Ask for an unknown topic, after waiting for the target.

        Raises TopicMissing if it does not have the topic, and BrokerError if it rejects it.
        """
        while True:
            try:
                await self._target.refresh([topic])
            except ClusterClosed:
                raise
            except ClusterError as failure:
                self._missing[topic] = time.monotonic(), failure
                continue  # refresh has its own backoff
            info = self._target.cached_topic(topic)
            if info is not None and info.partitions:
                self._missing.pop(topic, None)
                return
            if info is None or not info.error:
                continue
            is_missing = info.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            error = TopicMissing(topic) if is_missing else self._refusal(topic, info.error)
            since = self._missing[topic][0] if topic in self._missing else time.monotonic()
            self._missing[topic] = since, error
            if is_missing or not error.retriable:
                raise error

    def _refusal(self, topic: str, code: int) -> BrokerError:
        right = on_topic(Operation.DESCRIBE, topic, self._target.settings.alias)
        return BrokerError(code, f"find topic {topic} on the target", right=right)

    async def wait_for(self, topic: str, source_topic: str) -> None:
        """Wait until the target has a topic; create it for the records of ``source_topic``, if topics are created.

        Raises TopicMissing if it has not had it for `Timeouts.missing_topic_s`, and BrokerError if it rejects it.
        """
        while True:
            try:
                await self.look_up(topic)
            except TopicMissing:
                if time.monotonic() - self._missing[topic][0] > self._missing_topic_s:
                    raise
            else:
                return
            if self._new_topics is not None:
                await self._create(topic, source_topic, self._new_topics)

    async def _create(self, topic: str, source_topic: str, new_topics: NewTopics) -> None:
        try:
            await new_topics.create(topic, source_topic)
        except ClusterError as error:
            if not error.retriable:
                raise
            self._missing[topic] = self._missing[topic][0], error

    # -- reports

    def why_unsent(self, topic: str | None) -> ClusterError | None:
        """Return why a record for this topic cannot be sent yet, as far as that is known; None: for any topic."""
        missing = self._missing.get(topic) if topic is not None else None
        return missing[1] if missing is not None else self._producer.last_error

    def why_unanswered(self, source: SourceRecord, record: TargetRecord) -> ClusterError | None:
        """Return why the target has not acknowledged the record yet, as far as that is known."""
        try:
            return self._producer.error_of(self._place(source, record))
        except TopicUnknown:
            return self.why_unsent(record.topic)
