"""Assignments of a group's leader, also for members that it does not understand."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.core.wire.consumer_protocol import decode_assignment, encode_subscription
from mm2.kafka.groups.consumer_member import GroupLeader
from mm2.kafka.protocol.membership_requests import JoinedGroup, JoiningMember

COUNTS = {"t": 3, "u": 1}


async def counts(topics: Collection[str]) -> dict[str, int]:
    return {topic: COUNTS[topic] for topic in topics if topic in COUNTS}


def joined(*members: JoiningMember, skip_assignment: bool = False, assignor: str = "range") -> JoinedGroup:
    return JoinedGroup(0, 1, assignor, "m1", skip_assignment, "m1", members)


ONE = JoiningMember("m1", None, encode_subscription(["t", "u", "gone"]))
TWO = JoiningMember("m2", "first", encode_subscription(["t"]))
STRANGE = JoiningMember("m3", None, b"?")


async def test_every_member_gets_an_assignment(caplog: pytest.LogCaptureFixture) -> None:
    leader = GroupLeader(counts, "group g: m1")
    assert not leader.leads
    found = await leader.assign(joined(ONE, TWO, STRANGE))
    assert leader.leads
    assert {member_id: decode_assignment(raw) for member_id, raw in found.items()} == {
        "m1": {TopicPartition("t", 2), TopicPartition("u", 0)},
        "m2": {TopicPartition("t", 0), TopicPartition("t", 1)},
        "m3": set(),
    }
    assert "nothing is assigned to member m3: cannot read consumer subscription" in caplog.text


async def test_the_broker_chooses_the_assignor() -> None:
    found = await GroupLeader(counts, "group g: m1").assign(joined(ONE, TWO, assignor="roundrobin"))
    assert decode_assignment(found["m1"]) == {TopicPartition("t", 1), TopicPartition("u", 0)}


async def test_the_last_assignment_stays_valid_for_a_static_leader() -> None:
    leader = GroupLeader(counts, "group g: m1")
    assert await leader.assign(joined(ONE, TWO, skip_assignment=True)) == {}
    assert leader.leads


async def test_a_changed_partition_count_of_any_member_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = GroupLeader(counts, "group g: m1")
    await leader.assign(joined(ONE, TWO))
    assert not await leader.is_outdated()
    monkeypatch.setitem(COUNTS, "other", 5)
    assert not await leader.is_outdated()
    monkeypatch.setitem(COUNTS, "gone", 1)
    assert await leader.is_outdated()
    leader.step_down()
    assert not await leader.is_outdated(), "the next leader notices it"
