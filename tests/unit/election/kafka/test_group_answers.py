"""The leader's messages to group members, and their size for many tasks and nodes."""

from __future__ import annotations

import lzma
import random
import uuid

import pytest

from mm2.core.assignment.task_placement import TaskAssignments, TaskPlacement
from mm2.core.assignment.tasks import TaskId, TaskKind
from mm2.election.kafka.group_messages import (
    MAX_GROUP_BYTES,
    GroupAnswer,
    decode_answer,
    encode_answer,
    encode_answers,
    encode_member,
)
from mm2.election.protocol import Json, MemberInfo

ONE = MemberInfo(node_id="one", url="https://one:8083", capacity=4, kinds=("K",), tasks=("a", "b"))


def test_round_trip() -> None:
    answer = GroupAnswer(leader_id="id-1", members={"id-1": ONE}, assignment={"source_tasks": [1, None, {"ä": True}]})
    assert decode_answer(encode_answer(answer)) == answer
    refused = GroupAnswer(leader_id="id-1", members={}, error="too large")
    assert decode_answer(encode_answer(refused)) == refused


def test_members_share_the_message_with_their_assignment() -> None:
    members = {"id-1": ONE}
    metadata = {"id-1": encode_member(ONE), "id-2": b"unreadable"}
    answers, error = encode_answers("id-1", metadata, members, {"id-1": "all"})
    assert error == ""
    assert lzma.decompress(answers["id-1"].removeprefix(b"\x01")) == (
        b'{"assignment":"all","leader":"id-1","members":{'
        b'"id-1":{"capacity":4,"epoch":-1,"kinds":["K"],"node":"one","tasks":["a","b"],"terms":"",'
        b'"url":"https://one:8083","version":""}}}'
    )
    decoded = [decode_answer(raw) for raw in answers.values()]
    assert [one.assignment for one in decoded if one] == ["all", None]


def compressed(json: bytes) -> bytes:
    return b"\x01" + lzma.compress(json)


def test_unreadable_members_of_a_message_are_skipped() -> None:
    read = decode_answer(compressed(b'{"leader":"x","members":{"y":7},"assignment":1,"later":{}}'))
    assert read == GroupAnswer(leader_id="x", members={}, assignment=1)
    assert decode_answer(compressed(b'{"leader":"x","members":7}')) == GroupAnswer(leader_id="x", members={})


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b'{"leader":"x"}',
        compressed(b"[]"),
        compressed(b"{}"),
        b"\xff",
        b"[]",
        b"{}",
        b"[" * 1_000,
        b"\x01",
        b"\x01xz",
        b"\x00\x01\x00\x00",
    ],
)
def test_invalid_messages_are_ignored(raw: bytes) -> None:
    assert decode_answer(raw) is None


def test_truncated_and_oversized_streams_are_ignored() -> None:
    raw = encode_answer(GroupAnswer(leader_id="x", members={"x": ONE}))
    assert decode_answer(raw) is not None
    assert decode_answer(raw[:-1]) is None
    assert decode_answer(raw, most_bytes=100) is None


@pytest.mark.parametrize(("mebibytes", "is_read"), [(7, True), (8, False)])
def test_a_small_stream_expands_to_8_mib_at_most(mebibytes: int, *, is_read: bool) -> None:
    """As JSON it takes several times as much, in every node of the flow."""
    answer = GroupAnswer(leader_id="x", members={}, assignment="a" * (mebibytes << 20))
    assert (decode_answer(encode_answer(answer)) is not None) is is_read


def flow(nodes: int, tasks: int) -> tuple[dict[str, MemberInfo], Json]:
    """Return the members and the assignment of a flow after many rebalances: nothing about its tasks is regular."""
    rng = random.Random(7)

    def digits(count: int) -> str:
        return "".join(rng.choices("0123456789abcdef", k=count))

    names = [f"mm2-replicator-{digits(10)}-{digits(5)}.eu-west-1.example.com" for _ in range(nodes)]
    ids = {name: f"{name}-{uuid.UUID(int=rng.getrandbits(128))}" for name in names}
    places = {}
    for number in range(tasks):
        name = rng.choice(names)
        home = name if rng.random() < 0.8 else rng.choice(names)
        task = TaskId(TaskKind.SOURCE, number)
        places[task] = TaskPlacement(owner=ids[name], node=name, since=rng.randrange(100, 200), home=home)
    placement = TaskAssignments(epoch=200, places=places, seen=dict.fromkeys(names, 1790000000000))
    members = {
        member: MemberInfo(
            node_id=name,
            url=f"https://{name}:8443",
            capacity=8,
            kinds=TaskKind.ALL,
            tasks=tuple(sorted(str(task) for task in placement.run(member))),
            epoch=200,
            terms=digits(32),
            version="1.0.0",
        )
        for name, member in ids.items()
    }
    return members, placement.to_json()


def test_thousand_tasks_on_fifty_nodes_fit() -> None:
    members, assignment = flow(nodes=50, tasks=1_000)
    metadata = {one: encode_member(info) for one, info in members.items()}
    leader = next(iter(members))
    assert all(40 <= len(info.node_id) <= 60 for info in members.values())

    answers, error = encode_answers(leader, metadata, members, dict.fromkeys(members, assignment))
    assert error == ""
    assert sum(map(len, answers.values())) + sum(map(len, metadata.values())) < 0.7 * MAX_GROUP_BYTES
    assert decode_answer(answers[leader]) == GroupAnswer(leader_id=leader, members=members, assignment=assignment)


def test_too_large_group_keeps_its_tasks_and_says_why() -> None:
    members, assignment = flow(nodes=50, tasks=5_000)
    metadata = {one: encode_member(info) for one, info in members.items()}
    leader = next(iter(members))
    answers, error = encode_answers(leader, metadata, members, dict.fromkeys(members, assignment))
    assert error.startswith("the assignments for 50 nodes take ")
    assert f"more than a broker stores for a group ({MAX_GROUP_BYTES})" in error
    assert error.endswith("reduce tasks.max or the number of nodes")
    assert decode_answer(answers[leader]) == GroupAnswer(leader_id=leader, members=members, error=error)
    assert sum(map(len, answers.values())) < MAX_GROUP_BYTES
