"""Errors of client requests, in addition to those of connections and brokers in `mm2.kafka.errors`."""

from __future__ import annotations

from collections.abc import Mapping

from mm2.client.offsets import OffsetAndMetadata
from mm2.core.naming.names import TopicPartition
from mm2.kafka.errors import ClusterError


class NoCheckpoints(ClusterError):
    """The cluster has no checkpoints topic for the given alias, such as A.checkpoints.internal.

    Java's client lets brokers create the topic and returns nothing; if they do not create it, it waits for a minute.
    """

    def __init__(self, cluster: str, topic: str, remote_cluster_alias: str) -> None:
        self.topic = topic
        super().__init__(
            f"{cluster} has no topic {topic}: check that {remote_cluster_alias} is the alias of a cluster that is "
            f"replicated to it with emit.checkpoints.enabled = true, and that the flow has the same replication policy"
        )


class CheckpointsIncomplete(ClusterError):
    """The timeout expired before the checkpoints topic was read to its end.

    ``offsets`` contains what had been read of each group. Unread checkpoints can be newer: a consumer that starts at
    these offsets can read records again or miss partitions. Java's client returns them as if they were complete.
    """

    retriable = True

    def __init__(
        self, topic: str, timeout: float, offsets: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]]
    ) -> None:
        self.offsets = offsets
        super().__init__(f"could not read {topic} to its end within {timeout:g} s; use a longer timeout")
