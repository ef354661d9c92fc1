"""Nodes of a flow that call themselves alike."""

from __future__ import annotations

from collections.abc import Mapping

from mm2.election.protocol import MemberInfo


class Twins:
    """Tells nodes that share a name from one that was killed and started again: what was killed is a member until its
    session is over, and no longer. ``now`` is monotonic seconds."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, frozenset[str]], float] = {}  # by name and member ids

    def named(self, members: Mapping[str, MemberInfo], now: float, *, session_s: float) -> list[str]:
        """A sentence for each name that the same members (by member id) have had for longer than a session."""
        by_name: dict[str, set[str]] = {}
        for member_id, info in members.items():
            by_name.setdefault(info.node_id, set()).add(member_id)
        alike = {(name, frozenset(ids)) for name, ids in by_name.items() if len(ids) > 1}
        self._since = {one: self._since.get(one, now) for one in alike}
        return [
            f"{len(ids)} nodes call themselves {name}: give each a mm2.node.id of its own, or an address"
            f" (rest.advertised.*) of its own"
            for (name, ids), since in sorted(self._since.items(), key=lambda one: one[0][0])
            if now - since > session_s
        ]
