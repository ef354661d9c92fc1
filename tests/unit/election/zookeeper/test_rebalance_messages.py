"""The contents of the znode of a rebalance round, and invalid contents."""

from __future__ import annotations

import pytest

from mm2.election.protocol import Json, MemberInfo
from mm2.election.zookeeper.zookeeper_election import RebalanceMessage, decode_round, encode_round

ONE = MemberInfo(node_id="one", url="http://one", capacity=2, kinds=("K",), tasks=("a", "b"), version="1")


def test_round_trip() -> None:
    decided = RebalanceMessage(
        leader_id="a-0", members={"a-0": ONE}, answers={"a-0": {"source_tasks": [1]}, "later-1": None}
    )
    assert decode_round(encode_round(decided)) == decided


def test_equal_answers_are_written_once() -> None:
    assignment: Json = {"source_tasks": [7]}
    answers: dict[str, Json] = {"a-0": assignment, "b-1": assignment, "c-2": None}
    decided = RebalanceMessage(leader_id="a-0", members={"a-0": ONE, "b-1": ONE}, answers=answers)
    raw = encode_round(decided)
    assert raw.count(b"source_tasks") == 1
    assert decode_round(raw) == decided


def test_unknown_fields_are_ignored_and_unreadable_members_skipped() -> None:
    raw = b'{"leader":"a-0","shared":[1,2],"answer":{"a-0":0,"b-1":1},"members":{"b-1":{"name":"two"}},"colour":"blue"}'
    assert decode_round(raw) == RebalanceMessage(leader_id="a-0", members={}, answers={"a-0": 1, "b-1": 2})


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff",
        b"[]",
        b"7",
        b"[" * 1_000,
        b'{"leader":"a"}',
        b'{"leader":"a","members":[],"shared":[],"answer":{}}',
        b'{"leader":"a","members":{},"shared":[],"answer":[1]}',
        b'{"leader":"a","members":{},"shared":[],"answer":{"a":0}}',
    ],
)
def test_invalid_rounds(raw: bytes) -> None:
    assert decode_round(raw) is None
