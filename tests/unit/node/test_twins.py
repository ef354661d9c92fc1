"""Who calls itself as another node does: a mistake in a file, or the same node after kill -9."""

from __future__ import annotations

from mm2.election.protocol import MemberInfo
from mm2.node.twins import Twins

SESSION = 10.0
SENTENCE = "nodes call themselves one: give each a mm2.node.id of its own, or an address (rest.advertised.*) of its own"


def members(**names: str) -> dict[str, MemberInfo]:
    return {member: MemberInfo(node_id=name, url="", capacity=1) for member, name in names.items()}


def test_names_that_differ() -> None:
    assert Twins().named(members(m1="one", m2="two"), 0.0, session_s=0.0) == []


def test_a_node_that_was_killed_and_started_again_is_no_twin() -> None:
    """Its former self is a member until its session is over."""
    twins = Twins()
    for now in (0.0, 5.0, SESSION):
        assert twins.named(members(old="one", new="one", m2="two"), now, session_s=SESSION) == []
    assert twins.named(members(new="one", m2="two"), SESSION + 1, session_s=SESSION) == []
    assert twins.named(members(new="one", newer="one"), SESSION + 2, session_s=SESSION) == []  # killed once more


def test_twins_are_told_of_once_they_have_outlived_a_session() -> None:
    twins, alike = Twins(), members(m1="one", m2="one", m3="two")
    assert twins.named(alike, 0.0, session_s=SESSION) == []
    assert twins.named(alike, SESSION + 0.1, session_s=SESSION) == [f"2 {SENTENCE}"]
    assert twins.named(members(m1="one", m3="two"), SESSION + 0.2, session_s=SESSION) == []
