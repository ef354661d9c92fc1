"""What can go wrong with a question to a cluster, beside what `mm2.kafka.errors` knows of connections and brokers."""

from __future__ import annotations

from collections.abc import Mapping

from mm2.client.offsets import OffsetAndMetadata
from mm2.core.names import TopicPartition
from mm2.kafka.errors import ClusterError


class NoCheckpoints(ClusterError):
    """The cluster has no checkpoints of the one asked for: no topic such as A.checkpoints.internal.

    Java's client has brokers create the topic, and answers with nothing; where they do not, it waits for a minute.
    """

    def __init__(self, cluster: str, topic: str, remote_cluster_alias: str) -> None:
        self.topic = topic
        super().__init__(
            f"{cluster} has no topic {topic}: is {remote_cluster_alias} the alias of a cluster that is replicated to "
            f"it, with checkpoints (emit.checkpoints.enabled), and is it the replication policy of that flow?"
        )


class CheckpointsIncomplete(ClusterError):
    """The time was up before the checkpoints were read to their end.

    ``offsets`` is what had been read of each group. Later checkpoints may say more: a consumer that starts there reads
    again what it has read, or lacks partitions. Java's client returns this as if it were everything.
    """

    retriable = True

    def __init__(
        self, topic: str, timeout: float, offsets: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]]
    ) -> None:
        self.offsets = offsets
        super().__init__(f"read {topic} to its end: not done within {timeout:g} s: allow more time")
