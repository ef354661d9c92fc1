"""Content of a member's znode: its metadata (`mm2.election.kafka.group_messages`) and its membership in the held group.

    {…, "group": {"member": member ID in the group, "generation": int}}

A node that was killed and restarts has another member ID in the group than its former process. ``generation`` is that
of the group in which the member created its znode. Unknown keys are ignored, for rolling upgrades.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import as_int, decode_json
from mm2.election.kafka.group_messages import decode_member_json, dump_json, member_json
from mm2.election.protocol import Joined, Json, MemberInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldMembership:
    """A member of the held group, as of one generation."""

    member_id: str
    generation: int

    def has_ended(self, group: Joined) -> bool:
        """Return whether the broker has removed this member, as far as another member's rebalance ``group`` shows.

        It was part of its generation, and a broker never assigns a member ID again; so it has left if a later
        generation is without it. An earlier one shows nothing, nor does a list in which the reader itself is missing.
        """
        complete = group.member_id in group.members
        return complete and self.generation < group.generation and self.member_id not in group.members


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberZnode:
    """``group``: the membership in the held group; None if the znode has none that can be read."""

    info: MemberInfo
    group: HeldMembership | None

    def has_lost_group(self, group: Joined, lost_nodes: Collection[str]) -> bool:
        """Return whether this member has lost the held group, whose last rebalance is ``group``.

        ``lost_nodes``: the node IDs that have left the group; they decide if the znode names no membership.
        """
        return self.info.node_id in lost_nodes if self.group is None else self.group.has_ended(group)


def encode_member_znode(info: MemberInfo, group: HeldMembership | None) -> bytes:
    """Return the bytes of this node's znode. Equal arguments give equal bytes."""
    message: dict[str, Json] = member_json(info)
    if group is not None:
        message["group"] = {"member": group.member_id, "generation": group.generation}
    return dump_json(message)


def decode_member_znode(raw: bytes) -> MemberZnode | None:
    """Read a member's znode; None if the metadata cannot be read."""
    try:
        message = decode_json(raw, "member znode")
    except FormatError:
        return None
    info = decode_member_json(message)
    return MemberZnode(info=info, group=_decode_group(message.get("group"))) if info is not None else None


def _decode_group(message: object) -> HeldMembership | None:
    if not isinstance(message, Mapping):
        return None
    try:
        return HeldMembership(member_id=str(message["member"]), generation=as_int(message["generation"]))
    except (KeyError, TypeError):
        return None
