"""Configurations of remote topics follow those of their topics (mm2-compat §3.4, KIP-894).

As Java's tests have it: delete.retention.* is excluded, and what is set on a remote topic itself gives way.
"""

from __future__ import annotations

import pytest
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from tests.integration.shared_node import SEEN, Mirror, SharedNode, exists
from tests.lab.cluster import KafkaCluster
from tests.lab.waiting import wait_until

SET, DELETE = AlterConfigOpType.SET, AlterConfigOpType.DELETE


def configs(cluster: KafkaCluster, topic: str) -> dict[str, tuple[str, bool]]:
    """Every config of a topic: its value, and whether it is set on the topic itself."""
    (future,) = cluster.admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {name: (str(entry.value), entry.source == own) for name, entry in future.result(30).items()}


def alter(cluster: KafkaCluster, topic: str, name: str, value: str | None) -> None:
    """Set one config of a topic, or take it off again."""
    entry = ConfigEntry(name, value, incremental_operation=DELETE if value is None else SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for future in cluster.admin.incremental_alter_configs([resource]).values():
        future.result(30)


def wait_for(flow: Mirror, topic: str, name: str, value: str, *, own: bool) -> None:
    remote = flow.remote(topic)
    wait_until(
        lambda: configs(flow.target, remote)[name] == (value, own),
        SEEN,
        f"{name} of {remote} is {value}, {'set on the topic' if own else 'by default'}",
    )


def lines(flow: Mirror, topic: str) -> list[str]:
    """What the node's log says of changed configurations of the topic."""
    words = f"{flow.name}: configuration of remote topic {flow.remote(topic)}: "
    return [line.split(words)[1] for line in flow.node.process.output().splitlines() if words in line]


@pytest.fixture
def flow(shared: SharedNode) -> Mirror:
    """It keeps the target's defaults."""
    return shared.unusual


def made(flow: Mirror, stem: str, config: dict[str, str]) -> str:
    """A topic with a remote topic."""
    topic = flow.create(stem, config=config)
    wait_until(lambda: exists(flow.target, flow.remote(topic)), SEEN, f"{topic} has a remote topic")
    return topic


def test_sync_topic_configs(flow: Mirror) -> None:
    """The source's value replaces the target's; the target's value of an excluded config stays."""
    topic = made(flow, "synced", {"delete.retention.ms": "1000", "retention.bytes": "1000"})
    remote = flow.remote(topic)
    assert not configs(flow.target, remote)["delete.retention.ms"][1], "an excluded config is not created either"
    alter(flow.target, remote, "delete.retention.ms", "2000")
    alter(flow.target, remote, "retention.bytes", "2000")
    wait_for(flow, topic, "retention.bytes", "1000", own=True)
    assert configs(flow.target, remote)["delete.retention.ms"] == ("2000", True)

    alter(flow.source, topic, "retention.bytes", "3000")
    wait_for(flow, topic, "retention.bytes", "3000", own=True)
    assert lines(flow, topic) == ["retention.bytes = 1000, was 2000", "retention.bytes = 3000, was 1000"]
    assert configs(flow.target, remote)["delete.retention.ms"] == ("2000", True)


def test_replicate_target_default(flow: Mirror) -> None:
    """A value taken off the source topic leaves the remote topic with the target's default."""
    topic = made(flow, "target-default", {"retention.bytes": "1000"})
    wait_for(flow, topic, "retention.bytes", "1000", own=True)
    alter(flow.source, topic, "retention.bytes", None)
    wait_for(flow, topic, "retention.bytes", "-1", own=False)
    alter(flow.target, flow.remote(topic), "segment.ms", "60000")
    wait_for(flow, topic, "segment.ms", str(7 * 24 * 3600 * 1000), own=False)
    assert lines(flow, topic) == [
        "retention.bytes = the target's default, was 1000",
        "segment.ms = the target's default, was 60000",
    ]


def test_replicate_source_default(shared: SharedNode) -> None:
    """With use.defaults.from=source the remote topic gets the source's defaults as values of its own."""
    flow = shared.greedy
    topic = flow.named("source-default")
    flow.target.create_topic(flow.remote(topic))
    flow.source.create_topic(topic)
    wait_for(flow, topic, "segment.bytes", "1073741824", own=True)
    alter(flow.target, flow.remote(topic), "delete.retention.ms", "2000")
    alter(flow.target, flow.remote(topic), "retention.bytes", "2000")
    wait_for(flow, topic, "retention.bytes", "-1", own=True)
    assert configs(flow.target, flow.remote(topic))["delete.retention.ms"] == ("2000", True)


def test_what_is_right_is_not_touched(flow: Mirror) -> None:
    """Later rounds, which another topic shows to have taken place, ask the target for nothing."""
    topic = made(flow, "right", {"retention.ms": "7000000", "cleanup.policy": "compact"})
    other = made(flow, "clock", {"retention.ms": "7000000"})
    for value in ("8000000", "9000000"):
        alter(flow.source, other, "retention.ms", value)
        wait_for(flow, other, "retention.ms", value, own=True)
    assert len(lines(flow, other)) == 2
    assert lines(flow, topic) == []


def test_no_broker_acl_authorizer(shared: SharedNode) -> None:
    """ACL sync runs every second here, and says once that there are no ACLs."""
    flow = shared.unusual
    sentence = f"{flow.name}: cluster {flow.source_alias} has no authorizer"
    wait_until(lambda: sentence in flow.node.process.output(), SEEN, "the log says that there is no authorizer")
    topic = made(flow, "later-round", {"retention.ms": "1000000"})
    for value in ("2000000", "3000000"):  # rounds of a second, like those of ACLs
        alter(flow.source, topic, "retention.ms", value)
        wait_for(flow, topic, "retention.ms", value, own=True)
    assert flow.node.process.output().count(sentence) == 1
    wait_until(lambda: flow.node.flow(flow.name)["reasons"] == [], SEEN, "the flow has nothing to complain of")
