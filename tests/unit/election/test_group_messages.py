"""What members tell each other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mm2.election.group_messages import decode_answer, decode_member, encode_answer, encode_member
from mm2.election.protocol import Joined, MemberInfo

ONE = MemberInfo(
    node_id="one", url="https://one:8083", capacity=4, tasks=("a", "b"), epoch=3, terms="1-x", version="1.0"
)


def test_members_speak_json() -> None:
    assert encode_member(ONE) == (
        b'{"capacity":4,"epoch":3,"node":"one","tasks":["a","b"],"terms":"1-x","url":"https://one:8083","version":"1.0"}'
    )
    assert decode_member(encode_member(ONE)) == ONE


def test_the_same_news_are_the_same_bytes() -> None:
    assert encode_member(replace(ONE, tasks=("b", "a"))) == encode_member(ONE)


def test_a_later_version_may_say_more() -> None:
    raw = encode_member(ONE).replace(b"{", b'{"new":{},', 1)
    assert decode_member(raw) == ONE


@pytest.mark.parametrize("raw", [b"", b"\xff", b"null", b"[]", b'"text"', b"{}", b'{"node":"x"}', b"\x00\x01\x00\x00"])
def test_what_is_not_a_member_is_nobody(raw: bytes) -> None:
    assert decode_member(raw) is None
    assert decode_answer(raw) is None


def test_answers() -> None:
    answer = {"slots": [1, None, {"ä": True}]}
    raw = encode_answer("id-1", {"id-1": ONE}, answer)  # type: ignore[arg-type]
    assert decode_answer(raw) == ("id-1", {"id-1": ONE}, answer)
    assert decode_answer(encode_answer("id-1", {}, None)) == ("id-1", {}, None)


def test_an_unreadable_member_in_an_answer_is_left_out() -> None:
    assert decode_answer(b'{"leader":"x","members":{"y":7},"assignment":1}') == ("x", {}, 1)
    assert decode_answer(b'{"leader":"x","members":7}') == ("x", {}, None)


def test_who_leads() -> None:
    joined = Joined(generation=3, member_id="a", leader_id="b", members={"b": ONE}, assignment=None)
    assert not joined.is_leader
    assert joined.leader_node == "one"
    assert replace(joined, member_id="b").is_leader
    assert replace(joined, members={}).leader_node is None
