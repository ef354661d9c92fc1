"""Detection of recreated topics by their ids (KIP-516)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from uuid import UUID

from flows.partition.replicator import PartitionReplicator
from mm2.core.naming.names import Flow
from mm2.core.topics.topic_recreated import remote_topic_recreated, source_topic_recreated
from mm2.kafka.client.cluster import Cluster

log = logging.getLogger(__name__)


class TopicIdChecker:
    """Compares the topic ids in the clusters' metadata with those that each partition started with.

    (A) An id that was replaced is ignored from then on, since a broker with old metadata still reports it.
    (B) An unknown id (of a broker older than 2.8) matches any.
    """

    def __init__(
        self,
        flow: Flow,
        source: Cluster,
        target: Cluster,
        *,
        on_ids_changed: Callable[[PartitionReplicator], None],
        on_source_recreated: Callable[[PartitionReplicator, UUID], None],
    ) -> None:
        """``on_ids_changed``: a partition's ``topic_ids`` were completed, or its remote topic was recreated.

        ``on_source_recreated``: its source topic was recreated, with this id.
        """
        self._flow = flow
        self._source = source
        self._target = target
        self._on_ids_changed = on_ids_changed
        self._on_source_recreated = on_source_recreated
        self._replaced: set[UUID] = set()
        self.warnings: list[str] = []

    def add(self, partition: PartitionReplicator) -> None:
        """A partition starts: cached metadata with another topic id may be older than its lease, and is dropped."""
        cached = _topic_id(self._source, partition.source.topic)
        known = partition.topic_ids.source
        if cached is not None and known is not None and cached != known and cached not in self._replaced:
            self._source.forget_topic(partition.source.topic)

    def is_replaced(self, topic_id: UUID | None) -> bool:
        """Return whether the topic with this id was recreated with another id."""
        return topic_id in self._replaced

    def check_source(self, partition: PartitionReplicator) -> bool:
        """Return whether the source topic is unchanged, by cached metadata; otherwise the partition is replaced."""
        cached = _topic_id(self._source, partition.source.topic)
        known = partition.topic_ids.source
        if cached is None or cached == known or cached in self._replaced:
            return True
        if known is None:
            partition.topic_ids = partition.topic_ids._replace(source=cached)
            self._on_ids_changed(partition)
            return True
        self._replace(known, source_topic_recreated(partition.source.topic, self._flow.source))
        self._on_source_recreated(partition, cached)
        return False

    def check(self, partitions: Iterable[PartitionReplicator]) -> None:
        """Check the source and remote topics of these partitions, by cached metadata."""
        for partition in partitions:
            if self.check_source(partition):
                self._check_remote(partition)

    def _check_remote(self, partition: PartitionReplicator) -> None:
        cached = _topic_id(self._target, partition.target.topic)
        known = partition.topic_ids.remote
        if cached is None or cached == known or cached in self._replaced:
            return
        partition.topic_ids = partition.topic_ids._replace(remote=cached)
        if known is not None:
            self._replace(known, remote_topic_recreated(partition.target.topic, self._flow.target))
            log.info(
                "%s was recreated: it does not contain the records of %s before offset %d",
                partition.target,
                partition.source,
                partition.position,
            )
        self._on_ids_changed(partition)

    def _replace(self, topic_id: UUID, warning: str) -> None:
        """Warn once for all partitions of the topic, each time it is recreated."""
        if topic_id in self._replaced:
            return
        self._replaced.add(topic_id)
        log.debug("%s: %s", self._flow, warning)  # the node logs it, as a warning
        if warning not in self.warnings:
            self.warnings.append(warning)


def _topic_id(cluster: Cluster, topic: str) -> UUID | None:
    info = cluster.cached_topic(topic)
    return None if info is None else info.topic_id
