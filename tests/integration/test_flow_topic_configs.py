"""Configurations are synced to remote topics (KIP-894).

As in Java's tests, delete.retention.* is excluded, and values set on a remote topic are overwritten.
"""

from __future__ import annotations

import pytest

from tests.integration.shared_node import SEEN, Mirror, SharedNode, exists
from tests.lab.topic_configs import alter, configs
from tests.lab.waiting import wait_until


def wait_for_config(flow: Mirror, topic: str, name: str, value: str, *, own: bool) -> None:
    remote = flow.remote(topic)
    wait_until(
        lambda: configs(flow.target, remote)[name] == (value, own),
        SEEN,
        f"{name} of {remote} is {value}, {'set on the topic' if own else 'by default'}",
    )


def lines(flow: Mirror, topic: str) -> list[str]:
    """Return the node's log messages about changed configurations of the topic."""
    words = f"{flow.name}: updated configuration of remote topic {flow.remote(topic)}: "
    return [line.split(words)[1] for line in flow.node.process.output().splitlines() if words in line]


def wait_for_lines(flow: Mirror, topic: str, *expected: str) -> None:
    """Wait for exactly these messages: one is logged after the target has the change."""
    wait_until(lambda: lines(flow, topic)[: len(expected)] == [*expected], SEEN, f"the log has {expected}")
    assert lines(flow, topic) == [*expected]


@pytest.fixture
def flow(shared: SharedNode) -> Mirror:
    """A flow that keeps the target's defaults."""
    return shared.unusual


def create(flow: Mirror, stem: str, config: dict[str, str]) -> str:
    """Create a topic and wait for its remote topic."""
    topic = flow.create(stem, config=config)
    wait_until(lambda: exists(flow.target, flow.remote(topic)), SEEN, f"{topic} has a remote topic")
    return topic


def test_sync_topic_configs(flow: Mirror) -> None:
    """The source's value replaces the target's; excluded configs keep the target's value."""
    topic = create(flow, "synced", {"delete.retention.ms": "1000", "retention.bytes": "1000"})
    remote = flow.remote(topic)
    assert not configs(flow.target, remote)["delete.retention.ms"][1], "an excluded config is not created either"
    alter(flow.target, remote, "delete.retention.ms", "2000")
    alter(flow.target, remote, "retention.bytes", "2000")
    wait_for_lines(flow, topic, "retention.bytes = 1000, was 2000")  # brokers may describe the value before 2000
    wait_for_config(flow, topic, "retention.bytes", "1000", own=True)
    assert configs(flow.target, remote)["delete.retention.ms"] == ("2000", True)

    alter(flow.source, topic, "retention.bytes", "3000")
    wait_for_config(flow, topic, "retention.bytes", "3000", own=True)
    wait_for_lines(flow, topic, "retention.bytes = 1000, was 2000", "retention.bytes = 3000, was 1000")
    assert configs(flow.target, remote)["delete.retention.ms"] == ("2000", True)


def test_replicate_target_default(flow: Mirror) -> None:
    """After a value is deleted on the source topic, the remote topic has the target's default."""
    topic = create(flow, "target-default", {"retention.bytes": "1000"})
    wait_for_config(flow, topic, "retention.bytes", "1000", own=True)
    alter(flow.source, topic, "retention.bytes", None)
    wait_for_config(flow, topic, "retention.bytes", "-1", own=False)
    alter(flow.target, flow.remote(topic), "segment.ms", "60000")
    wait_for_config(flow, topic, "segment.ms", str(7 * 24 * 3600 * 1000), own=False)
    wait_for_lines(
        flow,
        topic,
        "retention.bytes = the target's default, was 1000",
        "segment.ms = the target's default, was 60000",
    )


def test_replicate_source_default(shared: SharedNode) -> None:
    """With use.defaults.from=source the source's defaults are set on the remote topic."""
    flow = shared.greedy
    topic = flow.named("source-default")
    flow.target.create_topic(flow.remote(topic))
    flow.source.create_topic(topic)
    wait_for_config(flow, topic, "segment.bytes", "1073741824", own=True)
    alter(flow.target, flow.remote(topic), "delete.retention.ms", "2000")
    alter(flow.target, flow.remote(topic), "retention.bytes", "2000")
    wait_for_config(flow, topic, "retention.bytes", "-1", own=True)
    assert configs(flow.target, flow.remote(topic))["delete.retention.ms"] == ("2000", True)


def test_correct_configs_are_not_altered(flow: Mirror) -> None:
    """Later rounds, detected by changes of another topic, change nothing."""
    topic = create(flow, "right", {"retention.ms": "7000000", "cleanup.policy": "compact"})
    other = create(flow, "clock", {"retention.ms": "7000000"})
    for value in ("8000000", "9000000"):
        alter(flow.source, other, "retention.ms", value)
        wait_for_config(flow, other, "retention.ms", value, own=True)
    wait_until(lambda: len(lines(flow, other)) == 2, SEEN, "both rounds are logged")
    assert lines(flow, topic) == []


def test_no_broker_acl_authorizer(shared: SharedNode) -> None:
    """ACL sync runs every second here, and logs only once that there is no authorizer."""
    flow = shared.unusual
    message = f"{flow.name}: cluster {flow.source_alias} has no authorizer"
    wait_until(lambda: message in flow.node.process.output(), SEEN, "the log reports that there is no authorizer")
    topic = create(flow, "later-round", {"retention.ms": "1000000"})
    for value in ("2000000", "3000000"):  # rounds of a second, like those of ACLs
        alter(flow.source, topic, "retention.ms", value)
        wait_for_config(flow, topic, "retention.ms", value, own=True)
    assert flow.node.process.output().count(message) == 1
    wait_until(lambda: flow.node.flow(flow.name)["reasons"] == [], SEEN, "the flow reports no problem")
