"""The node that most replication tests share: a flow for each kind of setting, between two clusters.

Several aliases refer to one cluster. A flow is identified by its source alias, which is part of its group and topic
names. Each flow selects topics by a separate prefix, so that a test chooses the flow by the name of the topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.node import Node
from tests.lab.settings import ONE_COPY
from tests.lab.verify import Verdict, wait_until_copied
from tests.lab.waiting import wait_until

SEEN = 30.0  # seconds until a change is discovered: refreshed every second, but the cores are shared
COPIED = 60.0  # seconds until a small topic is copied
RECEIVE_BUFFER, SEND_BUFFER = 61_000, 62_000  # bytes
OLD_RECORDS = 10  # records in the topics that existed before the node started


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """One flow of the shared node."""

    node: Node
    source: KafkaCluster
    target: KafkaCluster
    source_alias: str
    target_alias: str
    separator: str = "."
    keeps_names: bool = False
    named_as: str | None = None  # source.cluster.alias: what stands for the source in names and records

    @property
    def name(self) -> str:
        return f"{self.source_alias}->{self.target_alias}"

    @property
    def alias_in_names(self) -> str:
        """What stands for the source in the names of remote topics, and in the keys of its records' positions."""
        return self.named_as or self.source_alias

    def named(self, stem: str) -> str:
        """Return a new topic name that only this flow replicates."""
        return unique_name(f"{self.source_alias}-{stem}")

    def create(self, stem: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """Create a new source topic of this flow."""
        return self.source.create_topic(self.named(stem), partitions, config=config)

    def remote(self, topic: str) -> str:
        return topic if self.keeps_names else f"{self.alias_in_names}{self.separator}{topic}"

    def wait_copied(self, topic: str, *, repeats_allowed: bool = False) -> Verdict:
        """Wait until the remote topic equals the source topic. Raises GaveUp on timeout."""
        source, remote = (self.source.bootstrap, topic), (self.target.bootstrap, self.remote(topic))
        return wait_until_copied(source, remote, COPIED, repeats_allowed=repeats_allowed)

    def status(self, topic: str) -> dict[str, Any]:
        """Return the topic as in /flows, or nothing if it is not listed."""
        return self.node.topic(self.name, topic)

    def wait_state(self, topic: str, state: str) -> dict[str, Any]:
        """Wait until /flows shows the topic in this state, and return it."""

        def seen() -> dict[str, Any] | None:
            status = self.status(topic)
            return status if status.get("state") == state else None

        found = wait_until(seen, SEEN, f"{self.name}: topic {topic} is {state} in /flows")
        assert found is not None
        return found

    @property
    def old_topic(self) -> str:
        """Name of a topic with OLD_RECORDS records at node start, in flows ``plain`` and ``unusual``."""
        return f"{self.source_alias}-old"

    @property
    def offsets_topic(self) -> str:
        return f"mm2-offsets.{self.source_alias}.internal"


def exists(cluster: KafkaCluster, topic: str) -> bool:
    """Return whether the cluster has the topic. Lists all topics, since a request for one may create it."""
    return topic in cluster.admin.list_topics(timeout=10).topics


class SharedNode:
    """The flows by their special settings:

    ``plain``: only short intervals, topics and groups that start with the alias or contain the word loop, heartbeats.
    The groups of the other flows are selected in the same way.
    ``back``: the opposite direction for the same loop topics. It replicates no heartbeats: other nodes of the test run
    use other aliases for the same clusters, so cycles of heartbeats would not be detected.
    ``unusual``: another separator, another alias of the source in names, offset syncs on the target,
    auto.offset.reset=latest, no replicated heartbeats, the broker's default replication factor; group offsets are
    synced; configurations except delete.retention.* are synced every second; socket buffers have sizes.
    ``greedy``: replication factor 3, which a cluster of one broker cannot provide; configurations except
    delete.retention.* are synced every second, with the source's defaults.
    ``keeping``: the identity policy; group offsets are synced, translated as in Java, with an offset sync per record.
    ``beating``: heartbeats only.
    """

    def __init__(
        self, *, node: Node, source: KafkaCluster, target: KafkaCluster, properties: Mapping[str, str]
    ) -> None:
        a, b, c, d, e = properties["clusters"].split(", ")
        self.node = node
        self.source = source
        self.target = target
        self.plain = Mirror(node=node, source=source, target=target, source_alias=a, target_alias=b)
        self.back = Mirror(node=node, source=target, target=source, source_alias=b, target_alias=a)
        self.unusual = Mirror(
            node=node,
            source=source,
            target=target,
            source_alias=c,
            target_alias=b,
            separator="_",
            named_as=properties[f"{c}->{b}.source.cluster.alias"],
        )
        self.greedy = Mirror(node=node, source=source, target=target, source_alias=d, target_alias=b)
        self.keeping = Mirror(node=node, source=source, target=target, source_alias=e, target_alias=b, keeps_names=True)
        self.beating = Mirror(node=node, source=source, target=source, source_alias=c, target_alias=a)

    @staticmethod
    def plan(source: KafkaCluster, target: KafkaCluster) -> dict[str, str]:
        """Return the properties of the node."""
        a, b, c, d, e = (unique_name(stem) for stem in ("A", "B", "C", "D", "E"))
        return {
            "clusters": f"{a}, {b}, {c}, {d}, {e}",
            f"{a}.bootstrap.servers": source.bootstrap,
            f"{b}.bootstrap.servers": target.bootstrap,
            f"{c}.bootstrap.servers": source.bootstrap,
            f"{d}.bootstrap.servers": source.bootstrap,
            f"{e}.bootstrap.servers": source.bootstrap,
            **ONE_COPY,
            "mm2.rest.admin": "true",
            "mm2.rest.admin.token": "token-of-the-shared-node",
            "refresh.topics.interval.seconds": "1",
            "refresh.groups.interval.seconds": "1",
            "emit.checkpoints.interval.seconds": "1",
            "sync.group.offsets.interval.seconds": "1",
            "emit.heartbeats.enabled": "false",
            "emit.heartbeats.interval.seconds": "1",
            "topics.exclude": ".*-hidden-.*, mm2.*\\.internal",
            f"{a}.offset.flush.interval.ms": "500",
            f"{b}.offset.flush.interval.ms": "500",
            "tasks.max": "2",
            f"{a}->{b}.enabled": "true",
            f"{a}->{b}.emit.heartbeats.enabled": "true",
            f"{a}->{b}.topics": f"{a}-.*, .*loop-.*",
            f"{a}->{b}.groups": f"{a}-.*, .*loop-.*",
            f"{a}->{b}.offset.lag.max": "10",
            f"{b}->{a}.enabled": "true",
            f"{b}->{a}.emit.heartbeats.enabled": "true",
            f"{b}->{a}.topics": f"{b}-.*, .*loop-.*",
            f"{b}->{a}.groups": f"{b}-.*, .*loop-.*",
            f"{b}->{a}.heartbeats.replication.enabled": "false",
            f"{c}->{b}.enabled": "true",
            f"{c}->{b}.topics": f"{c}-.*",
            f"{c}->{b}.groups": f"{c}-.*",
            f"{c}->{b}.sync.group.offsets.enabled": "true",
            f"{c}->{b}.replication.policy.separator": "_",
            f"{c}->{b}.source.cluster.alias": f"{c}-alias",
            f"{c}->{b}.offset-syncs.topic.location": "target",
            f"{c}->{b}.heartbeats.replication.enabled": "false",
            f"{c}->{b}.replication.factor": "-1",
            f"{c}->{b}.sync.topic.configs.interval.seconds": "1",
            f"{c}->{b}.sync.topic.acls.interval.seconds": "1",
            f"{c}->{b}.config.properties.exclude": r"delete\.retention\..*",
            f"{c}.consumer.auto.offset.reset": "latest",
            f"{c}.consumer.receive.buffer.bytes": str(RECEIVE_BUFFER),
            f"{c}->{b}.producer.override.send.buffer.bytes": str(SEND_BUFFER),
            f"{d}->{b}.enabled": "true",
            f"{d}->{b}.topics": f"{d}-.*",
            f"{d}->{b}.groups": f"{d}-.*",
            f"{d}->{b}.heartbeats.replication.enabled": "false",
            f"{d}->{b}.replication.factor": "3",
            f"{d}->{b}.sync.topic.configs.interval.seconds": "1",
            f"{d}->{b}.config.properties.exclude": r"delete\.retention\..*",
            f"{d}->{b}.use.defaults.from": "source",
            f"{e}->{b}.enabled": "true",
            f"{e}->{b}.topics": f"{e}-.*",
            f"{e}->{b}.groups": f"{e}-.*",
            f"{e}->{b}.sync.group.offsets.enabled": "true",
            f"{e}->{b}.offset.lag.max": "0",
            f"{e}->{b}.mm2.offset.translation": "compatible",
            f"{e}->{b}.heartbeats.replication.enabled": "false",
            f"{e}->{b}.replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
            f"{c}->{a}.emit.heartbeats.enabled": "true",
        }
