from __future__ import annotations

import pytest

from mm2.core.names import Flow
from mm2.core.policies import DefaultReplicationPolicy, IdentityReplicationPolicy
from mm2.core.replication_filter import ReplicationFilter, Verdict

FLOW = Flow("source", "target")


def orders_only(topic: str) -> bool:
    return topic.startswith("orders")


@pytest.mark.parametrize(
    ("topic", "verdict"),
    [
        ("orders", Verdict.REPLICATED),
        ("invoices", Verdict.NOT_SELECTED),
        ("heartbeats", Verdict.REPLICATED),
        ("other.heartbeats", Verdict.REPLICATED),
        ("target.heartbeats", Verdict.CYCLE),
        ("target.orders", Verdict.CYCLE),
        ("source.target.orders", Verdict.CYCLE),
        ("__consumer_offsets", Verdict.INTERNAL),
        ("mm2-offsets.source.internal", Verdict.INTERNAL),
    ],
)
def test_verdicts(topic: str, verdict: Verdict) -> None:
    choice = ReplicationFilter(flow=FLOW, policy=DefaultReplicationPolicy(), selects=orders_only)
    assert choice.verdict(topic) is verdict
    assert choice.replicates(topic) is (verdict is Verdict.REPLICATED)


def test_heartbeats_stay_when_they_are_switched_off_and_not_selected() -> None:
    policy = DefaultReplicationPolicy()
    choice = ReplicationFilter(flow=FLOW, policy=policy, selects=orders_only, replicate_heartbeats=False)
    assert choice.verdict("heartbeats") is Verdict.NOT_SELECTED


def test_identity_sees_cycles_of_heartbeats_only() -> None:
    policy = IdentityReplicationPolicy(source_alias="source")
    choice = ReplicationFilter(flow=FLOW, policy=policy, selects=lambda _: True)
    assert choice.verdict("target.orders") is Verdict.REPLICATED
    assert choice.verdict("source.target.heartbeats") is Verdict.CYCLE
