from __future__ import annotations

import pytest

from mm2.core.naming.names import Flow
from mm2.core.policies import DefaultReplicationPolicy, IdentityReplicationPolicy
from mm2.core.topics.replication_filter import ReplicationFilter, TopicVerdict

FLOW = Flow("source", "target")


def orders_only(topic: str) -> bool:
    return topic.startswith("orders")


@pytest.mark.parametrize(
    ("topic", "verdict"),
    [
        ("orders", TopicVerdict.REPLICATED),
        ("invoices", TopicVerdict.NOT_SELECTED),
        ("heartbeats", TopicVerdict.REPLICATED),
        ("other.heartbeats", TopicVerdict.REPLICATED),
        ("target.heartbeats", TopicVerdict.CYCLE),
        ("target.orders", TopicVerdict.CYCLE),
        ("source.target.orders", TopicVerdict.CYCLE),
        ("__consumer_offsets", TopicVerdict.INTERNAL),
        ("mm2-offsets.source.internal", TopicVerdict.INTERNAL),
    ],
)
def test_verdicts(topic: str, verdict: TopicVerdict) -> None:
    choice = ReplicationFilter(aliases=FLOW, policy=DefaultReplicationPolicy(), selects=orders_only)
    assert choice.verdict(topic) is verdict
    assert choice.replicates(topic) is (verdict is TopicVerdict.REPLICATED)


def test_disabled_heartbeats_are_replicated_only_if_selected() -> None:
    policy = DefaultReplicationPolicy()
    choice = ReplicationFilter(aliases=FLOW, policy=policy, selects=orders_only, replicate_heartbeats=False)
    assert choice.verdict("heartbeats") is TopicVerdict.NOT_SELECTED


def test_identity_policy_detects_cycles_of_heartbeats_only() -> None:
    policy = IdentityReplicationPolicy(source_alias="source")
    choice = ReplicationFilter(aliases=FLOW, policy=policy, selects=lambda _: True)
    assert choice.verdict("target.orders") is TopicVerdict.REPLICATED
    assert choice.verdict("source.target.heartbeats") is TopicVerdict.CYCLE
