"""Two clusters with the state of a flow, written by the test: groups, offset syncs, exact map and checkpoints.

No node runs: the commands for a failover must work without one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import javaproperties

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.copied_ranges import CopiedRange, CopiedUpTo
from mm2.core.offsets.exact_offset_records import Segment, TopicIds
from mm2.core.wire.formats import Checkpoint, OffsetSync
from tests.lab import groups
from tests.lab.cluster import KafkaCluster
from tests.lab.records import Outgoing, write
from tests.lab.settings import one_flow


class Stage:
    """A flow for topics that start with its source alias. Parameters name topics without that prefix."""

    def __init__(
        self, directory: Path, *, source: KafkaCluster, target: KafkaCluster, aliases: tuple[str, str]
    ) -> None:
        self.source = source
        self.target = target
        self.alias, self.to = aliases
        self.name = f"{self.alias}->{self.to}"
        self.syncs_topic = f"mm2-offset-syncs.{self.to}.internal"
        self.checkpoints_topic = f"{self.alias}.checkpoints.internal"
        self.exact_topic = f"mm2-exact-offsets.{self.alias}.internal"
        self.properties = one_flow(source, target, aliases=aliases, topics=f"{self.alias}-.*")
        self._directory = directory

    def file(self, name: str = "mm2.properties", **changes: str) -> str:
        """Write a file with these changes and return its path; ``__`` represents a dot."""
        path = self._directory / name
        changed = self.properties | {key.replace("__", "."): value for key, value in changes.items()}
        path.write_text(javaproperties.dumps(changed, timestamp=False))
        return str(path)

    def source_partition(self, topic: str, partition: int = 0) -> TopicPartition:
        return TopicPartition(f"{self.alias}-{topic}", partition)

    def remote_partition(self, topic: str, partition: int = 0) -> TopicPartition:
        return TopicPartition(f"{self.alias}.{self.alias}-{topic}", partition)

    def create(self, topic: str, partitions: int = 1) -> None:
        """Create the topic and its remote topic without records."""
        self.source.create_topic(self.source_partition(topic).topic, partitions)
        self.target.create_topic(self.remote_partition(topic).topic, partitions)

    def create_internal(self) -> None:
        for cluster, topic in (
            (self.source, self.syncs_topic),
            (self.target, self.checkpoints_topic),
            (self.target, self.exact_topic),
        ):
            cluster.create_topic(topic, config={"cleanup.policy": "compact"})

    def sync(self, topic: str, upstream: int, downstream: int, partition: int = 0) -> None:
        written = OffsetSync(
            topic_partition=self.source_partition(topic, partition),
            upstream_offset=upstream,
            downstream_offset=downstream,
        )
        _put(self.source, self.syncs_topic, written.key(), written.value())

    def copied(self, topic: str, upstream: int, downstream: int, records: int, partition: int = 0) -> None:
        """Add a range to the exact map."""
        segment = Segment(
            topic_partition=self.source_partition(topic, partition),
            sequence=0,
            era=0,
            topic_ids=TopicIds(),
            before=CopiedUpTo(),
            through=upstream + records,
            ranges=(CopiedRange(upstream, downstream, records),),
        )
        _put(self.target, self.exact_topic, segment.key(), segment.value())

    def checkpoint(self, group: str, topic: str, upstream: int, downstream: int, partition: int = 0) -> None:
        written = Checkpoint(
            group=group,
            topic_partition=self.remote_partition(topic, partition),
            upstream_offset=upstream,
            downstream_offset=downstream,
        )
        _put(self.target, self.checkpoints_topic, written.key(), written.value())


def commit(cluster: KafkaCluster, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit offsets of a group without members, using the independent client."""
    groups.commit(cluster, group, {(one.topic, one.partition): offset for one, offset in offsets.items()})


def _put(cluster: KafkaCluster, topic: str, key: bytes, value: bytes) -> None:
    write(cluster.bootstrap, topic, [Outgoing(key=key, value=value)])
