"""The leader's messages to group members, and their size for many tasks and nodes."""

from __future__ import annotations

import random
import uuid
from dataclasses import replace

import pytest

from mm2.core.assignment.task_placement import TaskAssignments, TaskPlacement
from mm2.core.assignment.tasks import TaskId, TaskKind
from mm2.election.kafka.group_answers import (
    MAX_GROUP_BYTES,
    GroupAnswer,
    decode_answer,
    encode_answer,
    encode_answers,
)
from mm2.election.kafka.group_messages import FEATURES, encode_member
from mm2.election.protocol import Json, MemberInfo

ONE = MemberInfo(node_id="one", url="https://one:8083", capacity=4, tasks=("a", "b"), features=FEATURES)
OLD = replace(ONE, node_id="old", features=())


@pytest.mark.parametrize("compress", [False, True])
def test_round_trip(*, compress: bool) -> None:
    answer = GroupAnswer(leader_id="id-1", members={"id-1": ONE}, assignment={"source_tasks": [1, None, {"ä": True}]})
    assert decode_answer(encode_answer(answer, compress=compress)) == answer
    refused = GroupAnswer(leader_id="id-1", members={}, error="too large")
    assert decode_answer(encode_answer(refused, compress=compress)) == refused


def test_only_members_that_announce_it_receive_compressed_messages() -> None:
    members = {"id-1": ONE, "id-2": OLD}
    metadata = {one: encode_member(info) for one, info in members.items()} | {"id-3": b"unreadable"}
    answers, error = encode_answers("id-1", metadata, members, dict.fromkeys(members, "all"))
    assert error == ""
    assert [raw[:1] for raw in answers.values()] == [b"\x01", b"{", b"{"]
    assert answers["id-2"] == (
        b'{"assignment":"all","leader":"id-1","members":{'
        b'"id-1":{"capacity":4,"epoch":-1,"features":["shared","xz"],"kinds":null,"node":"one","tasks":["a","b"],"terms":"",'
        b'"url":"https://one:8083","version":""},'
        b'"id-2":{"capacity":4,"epoch":-1,"features":[],"kinds":null,"node":"old","tasks":["a","b"],"terms":"",'
        b'"url":"https://one:8083","version":""}}}'
    )
    decoded = [decode_answer(raw) for raw in answers.values()]
    assert [one.assignment for one in decoded if one] == ["all", "all", None]


def test_unreadable_members_of_a_message_are_skipped() -> None:
    read = decode_answer(b'{"leader":"x","members":{"y":7},"assignment":1,"later":{}}')
    assert read == GroupAnswer(leader_id="x", members={}, assignment=1)
    assert decode_answer(b'{"leader":"x","members":7}') == GroupAnswer(leader_id="x", members={})


@pytest.mark.parametrize("raw", [b"", b"\xff", b"[]", b"{}", b"[" * 1_000, b"\x01", b"\x01xz", b"\x00\x01\x00\x00"])
def test_invalid_messages_are_ignored(raw: bytes) -> None:
    assert decode_answer(raw) is None


def test_truncated_and_oversized_streams_are_ignored() -> None:
    raw = encode_answer(GroupAnswer(leader_id="x", members={"x": ONE}), compress=True)
    assert decode_answer(raw) is not None
    assert decode_answer(raw[:-1]) is None
    assert decode_answer(raw, most_bytes=100) is None


@pytest.mark.parametrize(("mebibytes", "is_read"), [(7, True), (8, False)])
def test_a_small_stream_expands_to_8_mib_at_most(mebibytes: int, *, is_read: bool) -> None:
    """As JSON it takes several times as much, in every node of the flow."""
    answer = GroupAnswer(leader_id="x", members={}, assignment="a" * (mebibytes << 20))
    assert (decode_answer(encode_answer(answer, compress=True)) is not None) is is_read


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
            tasks=tuple(sorted(str(task) for task in placement.run(member))),
            epoch=200,
            terms=digits(32),
            version="1.0.0",
            features=FEATURES,
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
    members, assignment = flow(nodes=50, tasks=1_000)
    old = {one: replace(info, features=()) for one, info in members.items()}
    metadata = {one: encode_member(info) for one, info in old.items()}
    leader, first = next(iter(old)), min(info.node_id for info in old.values())

    answers, error = encode_answers(leader, metadata, old, dict.fromkeys(old, assignment))
    assert "the assignments for 50 nodes take 5" in error
    assert f"more than a broker stores for a group ({MAX_GROUP_BYTES})" in error
    assert "reduce tasks.max or the number of nodes, or update the nodes" in error
    assert first in error
    assert decode_answer(answers[leader]) == GroupAnswer(leader_id=leader, members=old, error=error)

    members, assignment = flow(nodes=50, tasks=5_000)
    metadata = {one: encode_member(info) for one, info in members.items()}
    answers, error = encode_answers(next(iter(members)), metadata, members, dict.fromkeys(members, assignment))
    assert error.endswith("reduce tasks.max or the number of nodes")
    assert sum(map(len, answers.values())) < MAX_GROUP_BYTES
