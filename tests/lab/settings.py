"""mm2.properties for test clusters, as the dictionaries that nodes and the Java MirrorMaker of the lab take."""

from __future__ import annotations

from tests.lab.cluster import KafkaCluster

# A cluster of one broker has one replica; Java's defaults are three, and two for remote topics.
ONE_COPY = {
    "replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "errors.deadletterqueue.topic.replication.factor": "1",
}


def one_flow(
    source: KafkaCluster, target: KafkaCluster, *, aliases: tuple[str, str] = ("A", "B"), topics: str
) -> dict[str, str]:
    """One enabled flow from ``source`` to ``target`` for ``topics``. Add and override with ``|``.

    On shared clusters use unique aliases (`unique`): they are part of the names of internal topics and the group.
    """
    upstream, downstream = aliases
    return {
        "clusters": f"{upstream}, {downstream}",
        f"{upstream}.bootstrap.servers": source.bootstrap,
        f"{downstream}.bootstrap.servers": target.bootstrap,
        f"{upstream}->{downstream}.enabled": "true",
        f"{upstream}->{downstream}.topics": topics,
        "refresh.topics.interval.seconds": "1",  # ten minutes by default
        "mm2.validate.partitions": "true",  # a defect that breaks an invariant fails the test
        **(ONE_COPY if min(len(source.brokers), len(target.brokers)) < 3 else {}),
    }
