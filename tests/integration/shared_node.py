"""What runs in the node that most tests of replication share: a flow for each kind of setting, between two clusters.

Several aliases stand for one cluster: a flow is known by its source's alias, which names its group and its topics. Each
flow selects topics by a prefix of its own, so that a test chooses the flow by the name of the topic.
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

SEEN = 30.0  # seconds until something new was discovered: refreshed once a second, but the cores are shared
COPIED = 60.0  # seconds until a small topic is copied
OLD_RECORDS = 10  # in the topics that were there before the node


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

    @property
    def name(self) -> str:
        return f"{self.source_alias}->{self.target_alias}"

    def named(self, stem: str) -> str:
        """A new topic name that this flow, and no other, replicates."""
        return unique_name(f"{self.source_alias}-{stem}")

    def create(self, stem: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """A new source topic of this flow."""
        return self.source.create_topic(self.named(stem), partitions, config=config)

    def remote(self, topic: str) -> str:
        return topic if self.keeps_names else f"{self.source_alias}{self.separator}{topic}"

    def wait_copied(self, topic: str, *, repeats_allowed: bool = False) -> Verdict:
        """Until the remote topic equals what the source topic holds now. Raises GaveUp."""
        source, remote = (self.source.bootstrap, topic), (self.target.bootstrap, self.remote(topic))
        return wait_until_copied(source, remote, COPIED, repeats_allowed=repeats_allowed)

    def status(self, topic: str) -> dict[str, Any]:
        """The topic as /flows shows it; empty when it is not there."""
        return self.node.topic(self.name, topic)

    def wait_state(self, topic: str, state: str) -> dict[str, Any]:
        """Until /flows shows the topic in this state; the topic as it is shown."""

        def seen() -> dict[str, Any] | None:
            status = self.status(topic)
            return status if status.get("state") == state else None

        found = wait_until(seen, SEEN, f"{self.name}: topic {topic} is {state} in /flows")
        assert found is not None
        return found

    @property
    def old_topic(self) -> str:
        """A topic that held OLD_RECORDS when the node started. Of flows ``plain`` and ``unusual``."""
        return f"{self.source_alias}-old"

    @property
    def offsets_topic(self) -> str:
        return f"mm2-offsets.{self.source_alias}.internal"


def exists(cluster: KafkaCluster, topic: str) -> bool:
    """Whether the cluster has the topic. Asks for all topics, since to ask for one may create it."""
    return topic in cluster.admin.list_topics(timeout=10).topics


class SharedNode:
    """The flows, by what is special about them:

    ``plain``: nothing but short intervals, and topics that start with the alias or hold the word loop; heartbeats.
    Its groups begin with the alias too, or hold the word loop; so do those of the others.
    ``back``: the opposite direction for the same loop topics. It takes no heartbeats along: other nodes of the test run
    give the same clusters other aliases, so that nobody would see them going round.
    ``unusual``: another separator, offset syncs on the target, auto.offset.reset=latest, no replicated heartbeats,
    the broker's default replication factor; group offsets are synced; configurations synced every second, but for
    delete.retention.*.
    ``greedy``: asks for three copies, which a cluster of one broker does not have; configurations synced every second,
    but for delete.retention.*, with the source's defaults.
    ``keeping``: the identity policy; group offsets are synced, translated as Java does it, with a sync of every record.
    ``beating``: enabled for heartbeats only.
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
        self.unusual = Mirror(node=node, source=source, target=target, source_alias=c, target_alias=b, separator="_")
        self.greedy = Mirror(node=node, source=source, target=target, source_alias=d, target_alias=b)
        self.keeping = Mirror(node=node, source=source, target=target, source_alias=e, target_alias=b, keeps_names=True)
        self.beating = Mirror(node=node, source=source, target=source, source_alias=c, target_alias=a)

    @staticmethod
    def plan(source: KafkaCluster, target: KafkaCluster) -> dict[str, str]:
        """The node's mm2.properties."""
        a, b, c, d, e = (unique_name(stem) for stem in ("A", "B", "C", "D", "E"))
        return {
            "clusters": f"{a}, {b}, {c}, {d}, {e}",
            f"{a}.bootstrap.servers": source.bootstrap,
            f"{b}.bootstrap.servers": target.bootstrap,
            f"{c}.bootstrap.servers": source.bootstrap,
            f"{d}.bootstrap.servers": source.bootstrap,
            f"{e}.bootstrap.servers": source.bootstrap,
            **ONE_COPY,
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
            f"{c}->{b}.offset-syncs.topic.location": "target",
            f"{c}->{b}.heartbeats.replication.enabled": "false",
            f"{c}->{b}.replication.factor": "-1",
            f"{c}->{b}.sync.topic.configs.interval.seconds": "1",
            f"{c}->{b}.sync.topic.acls.interval.seconds": "1",
            f"{c}->{b}.config.properties.exclude": r"delete\.retention\..*",
            f"{c}.consumer.auto.offset.reset": "latest",
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
