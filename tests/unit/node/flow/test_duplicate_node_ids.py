"""Nodes that share a node ID: a configuration error, or the same node after kill -9."""

from __future__ import annotations

from mm2.election.protocol import MemberInfo
from mm2.node.flow.flow_status import DuplicateNodeIds

SESSION = 10.0
WARNING = (
    "duplicate node ID one, used by 2 nodes: set a different mm2.node.id, or a different address (rest.advertised.*),"
    " on each node"
)


def members(**names: str) -> dict[str, MemberInfo]:
    return {member: MemberInfo(node_id=name, url="", capacity=1, kinds=()) for member, name in names.items()}


def test_names_that_differ() -> None:
    assert DuplicateNodeIds().find(members(m1="one", m2="two"), 0.0, session_timeout_s=0.0) == []


def test_a_restarted_node_is_not_a_duplicate() -> None:
    """The member of its earlier process remains until the session timeout."""
    twins = DuplicateNodeIds()
    for now in (0.0, 5.0, SESSION):
        assert twins.find(members(old="one", new="one", m2="two"), now, session_timeout_s=SESSION) == []
    assert twins.find(members(new="one", m2="two"), SESSION + 1, session_timeout_s=SESSION) == []
    assert twins.find(members(new="one", newer="one"), SESSION + 2, session_timeout_s=SESSION) == []  # killed once more


def test_duplicate_ids_are_reported_after_a_session() -> None:
    twins, alike = DuplicateNodeIds(), members(m1="one", m2="one", m3="two")
    assert twins.find(alike, 0.0, session_timeout_s=SESSION) == []
    assert twins.find(alike, SESSION + 0.1, session_timeout_s=SESSION) == [WARNING]
    assert twins.find(members(m1="one", m3="two"), SESSION + 0.2, session_timeout_s=SESSION) == []
