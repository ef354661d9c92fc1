"""What members of group <source>-mm2 tell each other through the broker: JSON in the group protocol's opaque bytes.

    member → leader:  {"node": str, "url": str, "capacity": int, "tasks": [str, …], "epoch": int, "terms": str,
                       "version": str}
    leader → member:  {"leader": member id, "members": {member id: as above}, "assignment": any JSON}

Unknown keys are ignored, so that a later version may add some during a rolling upgrade.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mm2.election.protocol import Json, MemberInfo

PROTOCOL_TYPE = "mm2"
ELECTING = "v1"
"""Protocol name of members that elect by the group: the version of these messages. A later one would be offered beside
it during a rolling upgrade."""

HOLDING = "held for "
"""What the protocol names of members begin with that only hold the group, and elect by another system; where that is,
follows."""


def encode_member(info: MemberInfo) -> bytes:
    """Equal infos give equal bytes: the broker compares them to see whether a rejoin means a new round."""
    return _dumps(member_json(info))


def decode_member(raw: bytes) -> MemberInfo | None:
    """None for what is not a member's message."""
    return decode_member_json(_loads(raw))


def encode_answer(leader_id: str, members: Mapping[str, MemberInfo], assignment: Json) -> bytes:
    """The leader's answer to one member."""
    return _dumps(
        {
            "leader": leader_id,
            "members": {member_id: member_json(info) for member_id, info in members.items()},
            "assignment": assignment,
        }
    )


def decode_answer(raw: bytes) -> tuple[str, dict[str, MemberInfo], Json] | None:
    """Leader's member id, members, assignment; None for what is not a leader's answer."""
    message = _loads(raw)
    if not isinstance(message, dict) or not isinstance(message.get("leader"), str):
        return None
    told = message.get("members")
    infos = {one: decode_member_json(info) for one, info in told.items()} if isinstance(told, dict) else {}
    return message["leader"], {one: info for one, info in infos.items() if info}, message.get("assignment")


def member_json(info: MemberInfo) -> dict[str, Any]:
    """A member's message before it is bytes."""
    return {
        "node": info.node_id,
        "url": info.url,
        "capacity": info.capacity,
        "tasks": sorted(info.tasks),
        "epoch": info.epoch,
        "terms": info.terms,
        "version": info.version,
    }


def decode_member_json(message: Any) -> MemberInfo | None:
    """The reverse; None for what is not a member's message."""
    try:
        return MemberInfo(
            node_id=str(message["node"]),
            url=str(message["url"]),
            capacity=int(message["capacity"]),
            tasks=tuple(str(task) for task in message["tasks"]),
            epoch=int(message.get("epoch", -1)),
            terms=str(message.get("terms", "")),
            version=str(message.get("version", "")),
        )
    except (TypeError, KeyError, ValueError, AttributeError, OverflowError):
        return None


def _dumps(message: Any) -> bytes:
    return json.dumps(message, separators=(",", ":"), sort_keys=True).encode()


def _loads(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return None
