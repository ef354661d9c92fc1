"""Topic names and selection under both policies and several separators, compared with Java's own classes."""

from __future__ import annotations

from typing import Any

import pytest

from mm2.core.naming.names import Flow
from mm2.core.policies import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
    is_reserved_topic,
)
from mm2.core.topics.replication_filter import ReplicationFilter, TopicVerdict
from tests.golden.vectors import java_vectors

CASES: list[dict[str, Any]] = java_vectors("policies")


def name_of(case: dict[str, Any]) -> str:
    return f"{case['policy'].rsplit('.', 1)[1]} {case['settings']}"


def policy_of(case: dict[str, Any]) -> ReplicationPolicy:
    settings: dict[str, str] = case["settings"]
    separator = settings.get("replication.policy.separator", ".")
    enabled = settings.get("replication.policy.internal.topic.separator.enabled", "true") == "true"
    if case["policy"].endswith(".IdentityReplicationPolicy"):
        alias = settings.get("source.cluster.alias")
        return IdentityReplicationPolicy(separator=separator, internal_separator_enabled=enabled, source_alias=alias)
    return DefaultReplicationPolicy(separator=separator, internal_separator_enabled=enabled)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_names_of_topics(case: dict[str, Any]) -> None:
    policy = policy_of(case)
    assert policy.heartbeats_topic() == case["heartbeats_topic"]
    assert policy.offset_syncs_topic("B") == case["offset_syncs_topic"]
    assert policy.checkpoints_topic("A") == case["checkpoints_topic"]
    for topic, *answers, is_internal in (row[:9] for row in case["topics"]):
        assert [
            policy.format_remote_topic("A", topic),
            policy.topic_source(topic),
            policy.upstream_topic(topic),
            policy.original_topic(topic),
            policy.is_heartbeats_topic(topic),
            policy.is_checkpoints_topic(topic),
            policy.is_mm2_internal_topic(topic),
        ] == answers, topic
        assert policy.is_internal_topic(topic) == (is_internal or is_reserved_topic(topic)), topic


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_replicated_topics(case: dict[str, Any]) -> None:
    flow, policy = Flow("A", "B"), policy_of(case)
    everything = ReplicationFilter(aliases=flow, policy=policy, selects=lambda _: True)
    nothing = ReplicationFilter(aliases=flow, policy=policy, selects=lambda _: False)
    no_heartbeats = ReplicationFilter(aliases=flow, policy=policy, selects=lambda _: False, replicate_heartbeats=False)
    for topic, *_, is_cycle, by_all, by_none, by_none_without_heartbeats in case["topics"]:
        if is_reserved_topic(topic):
            assert everything.verdict(topic) is TopicVerdict.INTERNAL
            continue
        assert everything.replicates(topic) == by_all, topic
        assert nothing.replicates(topic) == by_none, topic
        assert no_heartbeats.replicates(topic) == by_none_without_heartbeats, topic
        if not policy.is_internal_topic(topic):
            assert (everything.verdict(topic) is TopicVerdict.CYCLE) == is_cycle, topic
