"""Messages between the members of group <source>-mm2 and their leader, in the opaque bytes of Kafka's group protocol.

A member sends JSON:

    {"node": str, "url": str, "capacity": int, "tasks": [str, …], "epoch": int, "terms": str, "version": str,
     "kinds": [str, …]}

The leader answers each member with the byte 1 and JSON as an xz stream; ``error``, if present, is why there is no
assignment:

    {"leader": member id, "members": {member id: its metadata}, "assignment": any JSON, "error": str}

Unknown keys are ignored, so that a later version can add keys during a rolling upgrade.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import as_int, decode_json
from mm2.election.protocol import Json, MemberInfo

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


MAX_GROUP_BYTES = 1_000_000
"""Limit of all metadata and assignments of a group. A broker stores a group in one record of at most
max.message.bytes of __consumer_offsets, 1,048,588 by default; if it cannot, it answers UNKNOWN_SERVER_ERROR."""

_MEMBER_BYTES = 200  # in addition per member: its IDs are counted twice, and client host and timeouts are stored
_COMPRESSED = b"\x01"  # no JSON begins with it
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 1 << 20}]  # with a dictionary of 8 MiB it takes 90 MB
_MEMORY = 16 << 20  # bytes that a stream may require for decompression; ours require about 1 MiB
LARGEST_BYTES = 8 << 20  # of JSON; 1,000 tasks on 50 nodes take 0.1 MB


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAnswer:
    """The leader's message to one member. ``error``: why there is no assignment, or empty."""

    leader_id: str
    members: Mapping[str, MemberInfo]
    assignment: Json = None
    error: str = ""


def encode_answers(
    leader_id: str,
    metadata: Mapping[str, bytes],
    members: Mapping[str, MemberInfo],
    assignments: Mapping[str, Json],
) -> tuple[dict[str, bytes], str]:
    """Return the leader's messages by member ID, and an error if they would be too large for a broker.

    With an error they contain no assignments, so every member keeps its tasks. ``metadata``: the bytes that each member
    sent; ``members``: those that could be read.
    """
    answers = _encoded(leader_id, metadata, members, assignments)
    size = sum(len(sent) + len(answers[one]) + 2 * len(one) + _MEMBER_BYTES for one, sent in metadata.items())
    if size <= MAX_GROUP_BYTES:
        return answers, ""
    error = (
        f"the assignments for {len(metadata)} nodes take {size} bytes, more than a broker stores for a group "
        f"({MAX_GROUP_BYTES}); every node keeps its tasks; reduce tasks.max or the number of nodes"
    )
    return _encoded(leader_id, metadata, members, {}, error), error


def _encoded(
    leader_id: str,
    metadata: Mapping[str, bytes],
    members: Mapping[str, MemberInfo],
    assignments: Mapping[str, Json],
    error: str = "",
) -> dict[str, bytes]:
    done: dict[int, bytes] = {}  # members usually share one assignment, which is encoded once
    for assignment in (assignments.get(one) for one in metadata):
        if id(assignment) not in done:
            answer = GroupAnswer(leader_id=leader_id, members=members, assignment=assignment, error=error)
            done[id(assignment)] = encode_answer(answer)
    return {one: done[id(assignments.get(one))] for one in metadata}


def encode_answer(answer: GroupAnswer) -> bytes:
    """Return the bytes of one message."""
    message: dict[str, Json] = {
        "leader": answer.leader_id,
        "members": {member_id: member_json(info) for member_id, info in answer.members.items()},
        "assignment": answer.assignment,
    }
    raw = dump_json(message | ({"error": answer.error} if answer.error else {}))
    return _COMPRESSED + lzma.compress(raw, filters=_FILTERS)


def decode_answer(raw: bytes, *, most_bytes: int = LARGEST_BYTES) -> GroupAnswer | None:
    """Read a message; None for anything else, and for a stream of more than ``most_bytes`` bytes of JSON."""
    try:
        message = decode_json(_uncompressed(raw, most_bytes), "assignment")
    except FormatError:
        return None
    if not isinstance(message, dict) or not isinstance(message.get("leader"), str):
        return None
    return GroupAnswer(
        leader_id=message["leader"],
        members=decode_members(message.get("members")),
        assignment=message.get("assignment"),
        error=str(message.get("error", "")),
    )


def _uncompressed(raw: bytes, most_bytes: int) -> bytes:
    """Return the JSON. Raises FormatError."""
    if not raw.startswith(_COMPRESSED):
        raise FormatError("cannot read assignment: it does not begin with the byte 1")
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY)
    try:
        found = decompressor.decompress(raw[len(_COMPRESSED) :], most_bytes)
    except lzma.LZMAError as error:
        raise FormatError(f"cannot read assignment: {error}") from None
    if not decompressor.eof:
        raise FormatError(f"cannot read assignment: incomplete, or more than {most_bytes} bytes")
    return found
