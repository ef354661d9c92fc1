"""The cases of Java's MirrorClientTest and ReplicationPolicyTest, and some additional ones."""

from __future__ import annotations

import pytest

from mm2.client import DefaultReplicationPolicy, IdentityReplicationPolicy, MirrorClientConfig, ReplicationPolicy
from mm2.client.mirror_client import TopicNames, hops, sources

DEFAULT = DefaultReplicationPolicy()
UNDERSCORES = DefaultReplicationPolicy(separator="__")


def names(*topics: str, policy: ReplicationPolicy = DEFAULT) -> TopicNames:
    return TopicNames(frozenset(topics), policy)


def test_heartbeat_topics() -> None:
    heartbeats = {"heartbeats", "source1.heartbeats", "source2.source1.heartbeats", "source3.heartbeats"}
    others = {"topic1", "topic2", "heartbeats!", "!heartbeats", "source1heartbeats", "source1-heartbeats"}
    assert names(*heartbeats, *others).heartbeat_topics() == heartbeats


def test_checkpoint_topics() -> None:
    checkpoints = {
        "source1.checkpoints.internal",
        "source2.source1.checkpoints.internal",
        "source3.checkpoints.internal",
    }
    others = {
        "topic1",
        "checkpoints.internal",
        "checkpoints-internal",
        "checkpoints.internal!",
        "!checkpoints.internal",
        "source1checkpointsinternal",
    }
    assert names(*checkpoints, *others).checkpoint_topics() == checkpoints


@pytest.mark.parametrize(
    ("topic", "alias", "expected"),
    [
        ("topic", "source", None),
        ("source", "source", None),
        ("sourcetopic", "source", None),
        ("source1.topic", "source2", None),
        ("source1.topic", "source1", 1),
        ("source2.source1.topic", "source2", 1),
        ("source2.source1.topic", "source1", 2),
        ("source3.source2.source1.topic", "source1", 3),
        ("source3.source2.source1.topic", "source4", None),
    ],
)
def test_hops_of_one_topic(topic: str, alias: str, expected: int | None) -> None:
    assert hops(DEFAULT, [topic], alias) == expected


@pytest.mark.parametrize(("alias", "expected"), [("source1", 1), ("source2", 2), ("source3", 1), ("source4", None)])
def test_replication_hops(alias: str, expected: int | None) -> None:
    topics = ("topic1", "topic2", "heartbeats", "source1.heartbeats", "source1.source2.heartbeats")
    assert names(*topics, "source3.heartbeats").replication_hops(alias) == expected


def test_hops_follow_the_shortest_path_of_heartbeats() -> None:
    found = names("A.B.C.heartbeats", "B.C.heartbeats", "C.orders")
    assert found.replication_hops("C") == 2


@pytest.mark.parametrize("policy", [DEFAULT, IdentityReplicationPolicy(source_alias="source")])
def test_upstream_clusters(policy: ReplicationPolicy) -> None:
    topics = ("source1.heartbeats", "source1.source2.heartbeats", "source3.source4.source5.heartbeats")
    found = names("topic1", "topic2", "sourceX.topic3", "heartbeats", *topics, policy=policy)
    assert found.upstream_clusters() == {"source1", "source2", "source3", "source4", "source5"}


def test_remote_topics() -> None:
    remote = {"source1.topic4", "source1.source2.topic5", "source3.source4.source5.topic6", "source1.heartbeats"}
    internal = {"source1.checkpoints.internal", "mm2-offset-syncs.source1.internal", "__consumer_offsets", ".hidden.x"}
    found = names("topic1", "topic2", "topic3", "heartbeats", *remote, *internal)
    assert found.remote_topics(None) == remote
    assert found.remote_topics("source1") == {"source1.topic4", "source1.source2.topic5", "source1.heartbeats"}
    assert found.remote_topics("source2") == set()  # not directly


def test_remote_topics_under_another_separator() -> None:
    remote = {"source1__topic4", "source1__source2__topic5", "source3__source4__source5__topic6"}
    found = names("topic1", "topic2", "topic3", "source1.topic7", *remote, policy=UNDERSCORES)
    assert found.remote_topics(None) == remote


def test_identity_policy_treats_every_topic_as_remote() -> None:
    policy = IdentityReplicationPolicy(source_alias="source")
    found = names("topic1", "topic2", "topic3", "heartbeats", "backup.heartbeats", policy=policy)
    assert found.remote_topics(None) == {"topic1", "topic2", "topic3", "backup.heartbeats"}
    assert found.remote_topics("source") == {"topic1", "topic2", "topic3"}


def test_identity_policy_without_an_alias_uses_heartbeats_only() -> None:
    policy = IdentityReplicationPolicy(source_alias=None)
    found = names("topic1", "heartbeats", "backup.heartbeats", policy=policy)
    assert found.remote_topics(None) == {"backup.heartbeats"}
    assert found.replication_hops("backup") == 1


@pytest.mark.parametrize(
    ("enabled", "checkpoints", "syncs"),
    [
        ("true", "CLUSTER__checkpoints__internal", "mm2-offset-syncs__CLUSTER__internal"),
        ("false", "CLUSTER.checkpoints.internal", "mm2-offset-syncs.CLUSTER.internal"),
    ],
)
def test_the_separator_of_internal_topics(enabled: str, checkpoints: str, syncs: str) -> None:
    properties = {
        "bootstrap.servers": "b:9092",
        "replication.policy.separator": "__",
        "replication.policy.internal.topic.separator.enabled": enabled,
    }
    policy = MirrorClientConfig.from_properties(properties).policy
    assert policy.checkpoints_topic("CLUSTER") == checkpoints
    assert policy.offset_syncs_topic("CLUSTER") == syncs
    assert policy.heartbeats_topic() == "heartbeats"
    assert names(checkpoints, policy=policy).checkpoint_topics() == {checkpoints}


class Cyclic(DefaultReplicationPolicy):
    """A policy under which two clusters copy a topic back and forth, and its name does not show it."""

    def topic_source(self, topic: str) -> str | None:
        return {"a": "A", "b": "B"}.get(topic)

    def upstream_topic(self, topic: str) -> str | None:
        return {"a": "b", "b": "a"}.get(topic)


def test_cyclic_policy_terminates() -> None:
    assert list(sources(Cyclic(), "a")) == ["A", "B"]
    assert hops(Cyclic(), ["a"], "B") == 2
    assert hops(Cyclic(), ["a"], "C") is None


def test_repeated_alias_ends_the_path_as_in_java() -> None:
    assert list(sources(DEFAULT, "A.B.A.C.heartbeats")) == ["A", "B"]
