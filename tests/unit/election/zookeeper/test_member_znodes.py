"""Content of the members' znodes, and which members have lost the held group."""

from __future__ import annotations

import pytest

from mm2.election.kafka.group_messages import decode_member, encode_member
from mm2.election.protocol import Joined, MemberInfo
from mm2.election.zookeeper.zookeeper_election import (
    HeldMembership,
    MemberZnode,
    decode_member_znode,
    encode_member_znode,
)

ONE = MemberInfo(node_id="one", url="", capacity=1, kinds=("K",))
MEMBERSHIP = HeldMembership(member_id="one-1", generation=3)


def group(generation: int, *member_ids: str, reader: str = "two-1") -> Joined:
    members = {one: MemberInfo(node_id=one.partition("-")[0], url="", capacity=1, kinds=()) for one in member_ids}
    return Joined(generation=generation, member_id=reader, leader_id=reader, members=members, assignment=None)


def test_content_is_the_metadata_and_the_membership() -> None:
    raw = encode_member_znode(ONE, MEMBERSHIP)
    assert raw == (
        b'{"capacity":1,"epoch":-1,"group":{"generation":3,"member":"one-1"},"kinds":["K"],'
        b'"node":"one","tasks":[],"terms":"","url":"","version":""}'
    )
    assert decode_member_znode(raw) == MemberZnode(info=ONE, group=MEMBERSHIP)


def test_earlier_releases_read_it() -> None:
    assert decode_member(encode_member_znode(ONE, MEMBERSHIP)) == ONE


def test_content_of_an_earlier_release() -> None:
    assert encode_member_znode(ONE, None) == encode_member(ONE)
    assert decode_member_znode(encode_member(ONE)) == MemberZnode(info=ONE, group=None)


@pytest.mark.parametrize(
    "later", [b'"one-1"', b"null", b"{}", b'{"member":"one-1"}', b'{"generation":"3","member":""}']
)
def test_unknown_form_of_the_membership_is_ignored(later: bytes) -> None:
    raw = encode_member_znode(ONE, MEMBERSHIP).replace(b'{"generation":3,"member":"one-1"}', later)
    assert decode_member_znode(raw) == MemberZnode(info=ONE, group=None)


@pytest.mark.parametrize("raw", [b"", b"\xff", b"null", b"[]", b"{}", b'{"group":{"generation":3,"member":"one-1"}}'])
def test_unreadable_metadata(raw: bytes) -> None:
    assert decode_member_znode(raw) is None


@pytest.mark.parametrize(
    ("now", "ended"),
    [
        (group(4, "two-1"), True),
        (group(4, "two-1", "one-2"), True),  # restarted: the node ID is in the group
        (group(4, "two-1", "one-1"), False),
        (group(4, "two-1", "one-1", "one-2"), False),  # two processes with one node ID
        (group(3, "two-1"), False),  # its own generation without it: the leader could not read its metadata
        (group(2, "two-1"), False),  # it has joined since
        (group(4), False),  # the leader could not read any metadata
    ],
)
def test_member_has_lost_the_group_if_a_later_generation_is_without_it(now: Joined, ended: bool) -> None:
    assert MEMBERSHIP.has_ended(now) is ended
    assert MemberZnode(info=ONE, group=MEMBERSHIP).has_lost_group(now, {"one"}) is ended


def test_node_id_decides_without_a_membership() -> None:
    znode = MemberZnode(info=ONE, group=None)
    assert znode.has_lost_group(group(4, "two-1"), {"one"})
    assert not znode.has_lost_group(group(4, "two-1"), set())
