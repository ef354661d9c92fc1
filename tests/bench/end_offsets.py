"""How many records a topic holds, asked so often that it must be cheap: one request for all its partitions."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from tests.lab.cluster import KafkaCluster

ASKED = 10.0  # seconds for one request

# What a broker says of a topic that was created a moment ago.
NOT_YET = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_LEADER_EPOCH,
}


class EndOffsets:
    """The end offsets of a topic that may not exist yet."""

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        self._admin = cluster.admin
        self._topic = topic
        self._latest: dict[int, int] = {}

    def refresh(self) -> int:
        """Ask again; the sum over all partitions, 0 as long as there is no such topic."""
        if not self._latest:
            known = self._admin.list_topics(timeout=ASKED).topics.get(self._topic)  # of all: naming one may create it
            self._latest = dict.fromkeys(known.partitions, 0) if known else {}
        if self._latest:
            wanted = {TopicPartition(self._topic, number): OffsetSpec.latest() for number in self._latest}
            for partition, future in self._admin.list_offsets(wanted, request_timeout=ASKED).items():
                try:
                    self._latest[partition.partition] = future.result().offset
                except KafkaException as problem:
                    if problem.args[0].code() not in NOT_YET:
                        raise
        return sum(self._latest.values())

    @property
    def by_partition(self) -> dict[int, int]:
        """As of the last `refresh`."""
        return dict(self._latest)
