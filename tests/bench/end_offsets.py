"""Number of records in a topic, requested often and therefore cheaply: one request for all partitions."""

from __future__ import annotations

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from tests.bench.log_files import Markers
from tests.lab import scratch
from tests.lab.cluster import KafkaCluster

REQUEST_TIMEOUT = 10.0  # seconds for one request

# Errors of brokers for a topic that was just created.
NOT_YET = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
}


class EndOffsets:
    """End offsets of a topic that may not exist yet; ``isolation``: for consumers of which kind."""

    def __init__(
        self,
        cluster: KafkaCluster,
        topic: str,
        *,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> None:
        self._isolation = isolation
        self._admin = cluster.admin
        self._topic = topic
        self._latest: dict[int, int] = {}

    def refresh(self) -> int:
        """Request the end offsets and return their sum; 0 if the topic does not exist."""
        if not self._latest:
            # List all topics, since a request for a single one can create it.
            known = self._admin.list_topics(timeout=REQUEST_TIMEOUT).topics.get(self._topic)
            self._latest = dict.fromkeys(known.partitions, 0) if known else {}
        if self._latest:
            wanted = {TopicPartition(self._topic, number): OffsetSpec.latest() for number in self._latest}
            answers = self._admin.list_offsets(wanted, request_timeout=REQUEST_TIMEOUT, isolation_level=self._isolation)
            for partition, future in answers.items():
                try:
                    self._latest[partition.partition] = future.result().offset
                except KafkaException as problem:
                    if problem.args[0].code() not in NOT_YET:
                        raise
        return sum(self._latest.values())

    @property
    def by_partition(self) -> dict[int, int]:
        """Return the end offsets of the last `refresh`."""
        return dict(self._latest)


class CommittedRecords:
    """Number of records in a topic that a read_committed consumer can read: without transaction markers.

    The topic must have no aborted transactions, and its cluster a single broker, whose disk is read.
    """

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        self._ends = EndOffsets(cluster, topic, isolation=IsolationLevel.READ_COMMITTED)
        self._markers = Markers(cluster.broker(1).directory / scratch.DATA, topic)

    def refresh(self) -> int:
        """Return the number now; 0 if the topic does not exist."""
        total = self._ends.refresh()
        self._markers.refresh()
        return total - self._markers.count_before(self._ends.by_partition)
