"""Creation of remote topics: partitions, replicas, configuration, and errors."""

from __future__ import annotations

from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

from tests.integration.shared_node import SEEN, SharedNode, exists
from tests.lab.cluster import KafkaCluster
from tests.lab.records import plain, write
from tests.lab.waiting import wait_until


def own_configs(cluster: KafkaCluster, topic: str) -> dict[str, str]:
    """Return the configs set on the topic itself."""
    (future,) = cluster.admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {name: str(entry.value) for name, entry in future.result(30).items() if entry.source == own}


def test_partitions_and_configuration_are_replicated(shared: SharedNode) -> None:
    flow = shared.plain
    copied = {"retention.ms": "7654321", "cleanup.policy": "compact,delete", "max.message.bytes": "2000000"}
    excluded = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    topic = flow.create("configured", 5, config=copied | excluded)
    wait_until(lambda: exists(flow.target, flow.remote(topic)), SEEN, f"{topic} has a remote topic")

    remote = flow.target.admin.list_topics(timeout=10).topics[flow.remote(topic)]
    assert len(remote.partitions) == 5
    assert own_configs(flow.target, flow.remote(topic)) == copied


def test_replication_factor_of_the_broker(shared: SharedNode) -> None:
    flow = shared.unusual  # replication.factor=-1
    topic = flow.create("default-copies")
    wait_until(lambda: exists(flow.target, flow.remote(topic)), SEEN, f"{topic} has a remote topic")
    remote = flow.target.admin.list_topics(timeout=10).topics[flow.remote(topic)]
    assert [len(partition.replicas) for partition in remote.partitions.values()] == [1]


def test_remote_topic_that_cannot_be_created_fails_alone(shared: SharedNode) -> None:
    flow = shared.greedy  # replication.factor=3, where there is one broker
    topic = flow.create("refused")
    present = flow.named("present")
    flow.target.create_topic(flow.remote(present))
    flow.source.create_topic(present)
    for name in (topic, present):
        write(flow.source.bootstrap, name, plain(10))

    failed = flow.wait_state(topic, "FAILED")
    assert "replication factor" in failed["error"].lower()
    assert flow.wait_copied(present).exact
    assert flow.wait_state(present, "RUNNING")
    assert not shared.node.healthy
    reasons = [reason for reason in shared.node.health()["reasons"] if topic in reason]
    assert [reason for reason in reasons if "replication factor" in reason.lower()]

    flow.target.create_topic(flow.remote(topic))  # fix the problem
    assert flow.wait_copied(topic).exact
    assert flow.wait_state(topic, "RUNNING")["error"] is None


def test_existing_remote_topic_is_used(shared: SharedNode) -> None:
    """More partitions than on the source are not an error: the source may get more partitions later."""
    flow = shared.plain
    topic = flow.named("ready")
    flow.target.create_topic(flow.remote(topic), 3)
    flow.source.create_topic(topic, 2)
    write(flow.source.bootstrap, topic, plain(40, partitions=2))
    verdict = flow.wait_copied(topic)
    assert verdict.records == 40
    assert len(flow.target.admin.list_topics(timeout=10).topics[flow.remote(topic)].partitions) == 3
