from __future__ import annotations

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.kafka.groups.group_members import assigned_partitions
from mm2.kafka.protocol.group_requests import GroupMember

CLASSIC = (  # version 1, orders: 0 and 2, größe: none, user data
    b"\x00\x01\x00\x00\x00\x02\x00\x06orders\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x02"
    b"\x00\x07gr\xc3\xb6\xc3\x9fe\x00\x00\x00\x00\x00\x00\x00\x01x"
)


def member(assignment: bytes | dict[str, tuple[int, ...]]) -> GroupMember:
    return GroupMember("m1", "c1", "/127.0.0.1", b"", assignment)


@pytest.mark.parametrize("assignment", [CLASSIC, {"orders": (2, 0), "größe": ()}], ids=["classic", "new"])
def test_partitions_of_a_member(assignment: bytes | dict[str, tuple[int, ...]]) -> None:
    assert assigned_partitions(member(assignment)) == {TopicPartition("orders", 0), TopicPartition("orders", 2)}


@pytest.mark.parametrize("assignment", [b"", b"\x00", CLASSIC[:20], b'{"epoch":7}', b"\x00\x01\xff\xff\xff\xff"])
def test_what_is_no_assignment_of_a_consumer_has_no_partitions(assignment: bytes) -> None:
    assert assigned_partitions(member(assignment)) == frozenset()
