"""Messages of group members to their leader."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mm2.election.kafka.group_messages import decode_member, encode_member
from mm2.election.protocol import Joined, MemberInfo

ONE = MemberInfo(
    node_id="one",
    url="https://one:8083",
    capacity=4,
    tasks=("a", "b"),
    epoch=3,
    terms="1-x",
    version="1.0",
    kinds=("K",),
)


def test_member_metadata_is_json() -> None:
    assert encode_member(ONE) == (
        b'{"capacity":4,"epoch":3,"kinds":["K"],"node":"one","tasks":["a","b"],'
        b'"terms":"1-x","url":"https://one:8083","version":"1.0"}'
    )
    assert decode_member(encode_member(ONE)) == ONE


def test_equal_metadata_has_equal_bytes() -> None:
    assert encode_member(replace(ONE, tasks=("b", "a"))) == encode_member(ONE)


def test_unknown_fields_are_ignored() -> None:
    raw = encode_member(ONE).replace(b"{", b'{"new":{},', 1)
    assert decode_member(raw) == ONE


@pytest.mark.parametrize("raw", [b"", b"\xff", b"null", b"[]", b'"text"', b"{}", b'{"node":"x"}', b"\x00\x01\x00\x00"])
def test_invalid_metadata_is_ignored(raw: bytes) -> None:
    assert decode_member(raw) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"capacity":4', b'"capacity":[' + b"[" * 1_000 + b"]" * 1_000 + b"]"),
        (b'"capacity":4', b'"capacity":NaN'),
        (b'"capacity":4', b'"capacity":1e999'),
        (b'"capacity":4', b'"capacity":1' + b"0" * 400),
        (b'"capacity":4', b'"capacity":"4"'),
        (b'"node":"one"', b'"node":"\\ud800"'),
    ],
)
def test_metadata_that_would_end_a_rebalance_is_ignored(old: bytes, new: bytes) -> None:
    raw = encode_member(ONE)
    assert decode_member(raw.replace(old, new)) is None
    assert decode_member(b"[" * 1_000) is None


def test_leader() -> None:
    joined = Joined(generation=3, member_id="a", leader_id="b", members={"b": ONE}, assignment=None)
    assert not joined.is_leader
    assert joined.leader_node == "one"
    assert replace(joined, member_id="b").is_leader
    assert replace(joined, members={}).leader_node is None
