"""Rules of the range assignor. (Java's own assignments: tests/golden.)"""

from __future__ import annotations

from mm2.core.mirror1.assignors import Subscriber, assign_ranges
from mm2.core.naming.names import TopicPartition


def numbers(assignment: dict[str, set[TopicPartition]], member_id: str, topic: str) -> list[int]:
    return sorted(one.partition for one in assignment[member_id] if one.topic == topic)


def test_the_first_members_get_one_partition_more() -> None:
    members = [Subscriber(member_id=member_id, topics=["t"]) for member_id in ("c", "a", "b")]
    found = assign_ranges(members, {"t": 8})
    assert [numbers(found, one, "t") for one in "abc"] == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_static_members_come_first_by_their_instance_ids() -> None:
    members = [
        Subscriber(member_id="a", topics=["t"]),
        Subscriber(member_id="z", topics=["t"], instance_id="i2"),
        Subscriber(member_id="y", topics=["t"], instance_id="i10"),
    ]
    found = assign_ranges(members, {"t": 3})
    assert [numbers(found, one, "t") for one in "yza"] == [[0], [1], [2]]


def test_only_subscribers_of_a_topic_get_its_partitions() -> None:
    members = [
        Subscriber(member_id="a", topics=["t", "u", "t", "gone"]),
        Subscriber(member_id="b", topics=["u"]),
        Subscriber(member_id="c", topics=[]),
    ]
    found = assign_ranges(members, {"t": 2, "u": 1, "other": 5})
    assert found == {
        "a": {TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)},
        "b": set(),
        "c": set(),
    }
