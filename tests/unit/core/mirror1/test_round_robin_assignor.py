"""Rules of the round robin assignor. (Java's own assignments: tests/golden.)"""

from __future__ import annotations

from mm2.core.mirror1.assignors import Subscriber, assign_round_robin
from mm2.core.naming.names import TopicPartition


def partitions(text: str) -> set[TopicPartition]:
    return {TopicPartition(one[0], int(one[1:])) for one in text.split()}


def test_the_partitions_of_all_topics_are_given_in_turn() -> None:
    members = [Subscriber(member_id=member_id, topics=["u", "t"]) for member_id in ("c", "a", "b")]
    found = assign_round_robin(members, {"u": 2, "t": 2})
    assert found == {"a": partitions("t0 u1"), "b": partitions("t1"), "c": partitions("u0")}


def test_static_members_come_first() -> None:
    members = [
        Subscriber(member_id="a", topics=["t"]),
        Subscriber(member_id="z", topics=["t"], instance_id="i2"),
        Subscriber(member_id="y", topics=["t"], instance_id="i10"),
    ]
    found = assign_round_robin(members, {"t": 4})
    assert found == {"y": partitions("t0 t3"), "z": partitions("t1"), "a": partitions("t2")}


def test_members_that_do_not_subscribe_to_a_topic_are_passed_over() -> None:
    members = [
        Subscriber(member_id="a", topics=["t", "gone"]),
        Subscriber(member_id="b", topics=["u"]),
        Subscriber(member_id="c", topics=[]),
    ]
    found = assign_round_robin(members, {"t": 2, "u": 1, "other": 5})
    assert found == {"a": partitions("t0 t1"), "b": partitions("u0"), "c": set()}
