"""Messages of the members of group <source>-mm2 to their leader: JSON in the opaque bytes of Kafka's group protocol.

    {"node": str, "url": str, "capacity": int, "tasks": [str, …], "epoch": int, "terms": str, "version": str,
     "kinds": [str, …]}

Unknown keys are ignored, so that a later version can add keys during a rolling upgrade. The leader's messages are in
`mm2.election.kafka.group_answers`.
"""

from __future__ import annotations

import json
from typing import Any

from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import as_int, decode_json
from mm2.election.protocol import MemberInfo

PROTOCOL_TYPE = "mm2"
ELECTING = "v1"
"""Protocol name of members that elect by the group: the version of these messages. During a rolling upgrade members
offer a later version in addition."""

HOLDING = "held for "
"""Prefix of the protocol names of members that only hold the group and elect by another system; the system's location
follows."""


def encode_member(info: MemberInfo) -> bytes:
    """Return the bytes of this node's message.

    Equal metadata gives equal bytes: the broker compares them to decide whether a rejoin starts a rebalance.
    """
    return dump_json(member_json(info))


def decode_member(raw: bytes) -> MemberInfo | None:
    """Read a member's message; None for anything else."""
    try:
        return decode_member_json(decode_json(raw, "member metadata"))
    except FormatError:
        return None


def member_json(info: MemberInfo) -> dict[str, Any]:
    """Return a member's message as a JSON object."""
    return {
        "node": info.node_id,
        "url": info.url,
        "capacity": info.capacity,
        "tasks": sorted(info.tasks),
        "epoch": info.epoch,
        "terms": info.terms,
        "version": info.version,
        "kinds": sorted(info.kinds),
    }


def decode_member_json(message: Any) -> MemberInfo | None:
    """Read `member_json`; None for anything else."""
    try:
        return MemberInfo(
            node_id=str(message["node"]),
            url=str(message["url"]),
            capacity=as_int(message["capacity"]),
            kinds=tuple(str(kind) for kind in message["kinds"]),
            tasks=tuple(str(task) for task in message["tasks"]),
            epoch=as_int(message.get("epoch", -1)),
            terms=str(message.get("terms", "")),
            version=str(message.get("version", "")),
        )
    except (TypeError, KeyError, AttributeError):
        return None


def decode_members(message: Any) -> dict[str, MemberInfo]:
    """Read the members of a leader's message by ID, without those that cannot be read."""
    infos = {one: decode_member_json(info) for one, info in message.items()} if isinstance(message, dict) else {}
    return {one: info for one, info in infos.items() if info is not None}


def dump_json(message: Any) -> bytes:
    """Return compact JSON; equal messages give equal bytes."""
    return json.dumps(message, separators=(",", ":"), sort_keys=True).encode()
