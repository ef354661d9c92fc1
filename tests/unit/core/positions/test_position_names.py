from __future__ import annotations

import pytest

from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.policies import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy
from mm2.core.positions.position_names import PositionNames, PositionRejectedError, check_partition
from mm2.core.topics.replication_filter import ReplicationFilter

A_B = Flow("A", "B")


def names(policy: ReplicationPolicy) -> PositionNames:
    topics = ReplicationFilter(aliases=A_B, policy=policy, selects=lambda topic: topic != "hidden")
    return PositionNames(flow=A_B, topics=topics, refusal=lambda topic: f"not matched by topics: {topic}")


DEFAULT = names(DefaultReplicationPolicy())
IDENTITY = names(IdentityReplicationPolicy(source_alias="A"))


def test_names_on_both_sides() -> None:
    for one, remote in ((DEFAULT, "A.orders"), (IDENTITY, "orders")):
        assert one.remote("orders") == one.other("orders", reverse=False) == remote
        assert one.source(remote) == one.other(remote, reverse=True) == "orders"
    assert DEFAULT.remote("C.orders") == "A.C.orders"
    assert DEFAULT.source("A.C.orders") == "C.orders"
    assert DEFAULT.remote("heartbeats") == "A.heartbeats"
    assert DEFAULT.rejection("orders") is None
    assert "does not copy topic hidden" in str(DEFAULT.rejection("hidden"))


@pytest.mark.parametrize(
    ("topic", "reverse", "rule", "fix"),
    [
        (
            "hidden",
            False,
            "A->B does not copy topic hidden: not matched by topics: hidden",
            "use the name on the source",
        ),
        ("__secret", False, "A->B does not copy topic __secret: it is internal to Kafka", "use the name on the source"),
        ("B.orders", False, "A->B does not copy topic B.orders: it was replicated from the target", "use the name"),
        ("A.hidden", True, "A->B does not copy topic hidden: not matched by topics", "use the name on the source"),
        ("orders", True, "orders is not a remote topic of A->B", "such as A.orders for orders, or leave out --reverse"),
        ("C.orders", True, "C.orders is not a remote topic of A->B", "use the name on the target"),
    ],
)
def test_topics_that_have_no_name_there(topic: str, reverse: bool, rule: str, fix: str) -> None:
    with pytest.raises(PositionRejectedError) as raised:
        DEFAULT.other(topic, reverse=reverse)
    assert raised.value.rule.startswith(rule)
    assert fix in raised.value.fix
    assert str(raised.value) == f"{raised.value.rule} (fix: {raised.value.fix})"


def test_a_remote_name_without_reverse() -> None:
    only = PositionNames(
        flow=A_B,
        topics=ReplicationFilter(aliases=A_B, policy=DefaultReplicationPolicy(), selects="orders".__eq__),
        refusal=lambda topic: "not matched",
    )
    with pytest.raises(PositionRejectedError, match="use its name on the source, orders, or --reverse for a position"):
        only.remote("A.orders")


def test_partitions() -> None:
    check_partition(A_B, TopicPartition("A.orders", 2), 3)
    for partitions, text in (
        (None, "topic A.orders does not exist on B: nothing of it has been copied"),
        (2, "partition 2 does not exist: A.orders on B has partitions 0 to 1"),
        (1, "partition 2 does not exist: A.orders on B has only partition 0"),
    ):
        with pytest.raises(PositionRejectedError, match=text):
            check_partition(A_B, TopicPartition("A.orders", 2), partitions)
