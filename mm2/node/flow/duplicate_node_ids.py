"""Detection of nodes that share a node ID."""

from __future__ import annotations

from collections.abc import Mapping

from mm2.election.protocol import MemberInfo


class DuplicateNodeIds:
    """Finds node IDs used by more than one member for longer than a session.

    A node that was killed and restarted shares its ID with its own expired member until the session timeout; that is
    not reported.
    """

    def __init__(self) -> None:
        self._since: dict[tuple[str, frozenset[str]], float] = {}  # by node ID and member ids

    def find(self, members: Mapping[str, MemberInfo], now: float, *, session_timeout_s: float) -> list[str]:
        """Return one warning per duplicated node ID. ``members`` is by member id, ``now`` is monotonic seconds."""
        members_of: dict[str, set[str]] = {}
        for member_id, info in members.items():
            members_of.setdefault(info.node_id, set()).add(member_id)
        duplicates = {(node_id, frozenset(ids)) for node_id, ids in members_of.items() if len(ids) > 1}
        self._since = {one: self._since.get(one, now) for one in duplicates}
        return [
            f"duplicate node ID {name}, used by {len(ids)} nodes: set a different mm2.node.id, or a different address"
            " (rest.advertised.*), on each node"
            for (name, ids), since in sorted(self._since.items(), key=lambda one: one[0][0])
            if now - since > session_timeout_s
        ]
