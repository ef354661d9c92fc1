from __future__ import annotations

import pytest

from mm2.core.policies import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy

DEFAULT = DefaultReplicationPolicy()
UNDERSCORE = DefaultReplicationPolicy(separator="_")
IDENTITY = IdentityReplicationPolicy(source_alias="A")


class SuffixPolicy(ReplicationPolicy):
    """A user's policy: orders@A. Only three methods are required."""

    def format_remote_topic(self, alias: str, topic: str) -> str:
        return f"{topic}@{alias}"

    def topic_source(self, topic: str) -> str | None:
        return topic.rpartition("@")[2] if "@" in topic else None

    def upstream_topic(self, topic: str) -> str | None:
        return topic.rpartition("@")[0] if "@" in topic else None


@pytest.mark.parametrize(
    ("topic", "source", "upstream", "original"),
    [
        ("topic1", None, None, "topic1"),
        ("A.topic1", "A", "topic1", "topic1"),
        ("A.B.topic1", "A", "B.topic1", "topic1"),
        ("my.app.events", "my", "app.events", "events"),
        ("A.checkpoints.internal", "A", "checkpoints.internal", "internal"),
        ("heartbeats.", None, None, "heartbeats."),
        (".x", "", "x", "x"),
        ("a..b", "a", ".b", "b"),
    ],
)
def test_source_of_topics_under_the_default_policy(
    topic: str, source: str | None, upstream: str | None, original: str
) -> None:
    assert DEFAULT.topic_source(topic) == source
    assert DEFAULT.upstream_topic(topic) == upstream
    assert DEFAULT.original_topic(topic) == original


def test_identity_policy_keeps_names_except_heartbeats() -> None:
    assert IDENTITY.format_remote_topic("A", "topic1") == "topic1"
    assert IDENTITY.topic_source("topic1") == "A"
    assert IDENTITY.format_remote_topic("A", "heartbeats") == "A.heartbeats"
    assert IDENTITY.topic_source("backup.heartbeats") == "backup"


@pytest.mark.parametrize(
    ("topic", "internal"),
    [
        ("__consumer_offsets", True),
        (".hidden", True),
        ("mm2-offset-syncs.B.internal", True),
        ("A.checkpoints.internal", True),
        ("orders.internal", False),  # KIP-1074: it was internal until 3.9
        ("orders-internal", False),
        ("mm2-offsets_A_internal", False),
    ],
)
def test_internal_topics_as_in_4_0(topic: str, internal: bool) -> None:
    assert DEFAULT.is_internal_topic(topic) is internal


@pytest.mark.parametrize("name", ["offsets", "configs", "status"])
@pytest.mark.parametrize("policy", [UNDERSCORE, IdentityReplicationPolicy(separator="__"), SuffixPolicy()])
def test_worker_topics_are_protected_under_every_separator(policy: ReplicationPolicy, name: str) -> None:
    assert policy.is_internal_topic(f"mm2-{name}.A.internal")


@pytest.mark.parametrize(
    ("alias", "separator", "broken"),
    [
        ("us-west", ".", False),
        ("us.west", ".", True),
        ("us.west", "_", False),
        ("us_", "__", True),  # us___orders is split after us
        ("us__", "__", True),
        ("_us", "__", False),
    ],
)
def test_ambiguous_aliases(alias: str, separator: str, broken: bool) -> None:
    policy = DefaultReplicationPolicy(separator=separator)
    assert policy.alias_breaks_names(alias) is broken
    assert policy.alias_breaks_heartbeats(alias) is broken


def test_ambiguous_aliases_affect_only_heartbeats_under_the_identity_policy() -> None:
    assert not IDENTITY.alias_breaks_names("us.west")
    assert IDENTITY.alias_breaks_heartbeats("us.west")


def test_user_policy_inherits_other_methods() -> None:
    policy = SuffixPolicy()
    assert policy.original_topic("orders@A@B") == "orders"
    assert policy.is_heartbeats_topic("heartbeats@A@B")
    assert policy.offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"
    assert policy.checkpoints_topic("A") == "A.checkpoints.internal"
    assert policy.is_mm2_internal_topic("A.checkpoints.internal")
    assert policy.is_mm2_internal_topic("mm2-offset-syncs.B.internal")
    assert not policy.is_internal_topic("orders@A")
    assert not policy.alias_breaks_names("us.west")


def test_cyclic_policy_terminates() -> None:
    class Circular(SuffixPolicy):
        def upstream_topic(self, topic: str) -> str | None:
            return {"a": "b", "b": "c", "c": "a"}[topic]

    assert list(Circular().upstream_topics("a")) == ["b", "c"]
