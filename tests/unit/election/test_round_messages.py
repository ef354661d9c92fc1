"""What stands in the znode of a round, and what is none."""

from __future__ import annotations

import pytest

from mm2.election.protocol import MemberInfo
from mm2.election.round_messages import Round, decode_round, encode_round

ONE = MemberInfo(node_id="one", url="http://one", capacity=2, tasks=("a", "b"), version="1")


def test_a_round_comes_back_as_it_was() -> None:
    decided = Round(leader_id="a-0", members={"a-0": ONE}, answers={"a-0": {"slots": [1]}, "later-1": None})
    assert decode_round(encode_round(decided)) == decided


def test_what_a_later_version_adds_is_ignored_and_members_it_changed_are_left_out() -> None:
    raw = b'{"leader":"a-0","answers":{"a-0":1,"b-1":2},"members":{"b-1":{"name":"two"}},"colour":"blue"}'
    assert decode_round(raw) == Round(leader_id="a-0", members={}, answers={"a-0": 1, "b-1": 2})


@pytest.mark.parametrize(
    "raw", [b"", b"\xff", b"[]", b"7", b'{"leader":"a"}', b'{"leader":"a","members":[],"answers":{}}']
)
def test_what_is_no_round(raw: bytes) -> None:
    assert decode_round(raw) is None
