"""Content of the znode ``round``: one complete rebalance as JSON, written by the leader.

    {"leader": member id, "members": {member id: {"node": str, …}}, "answers": {member id: any JSON}}

The generation is the znode's version. ``answers`` contains all members, ``members`` those whose metadata could be
decoded (`mm2.election.kafka.group_messages`). Unknown keys are ignored, for rolling upgrades. If all members have the
feature ``shared``, each different answer is written once, because usually all are equal:

    {…, "shared": [any JSON, …], "answer": {member id: index}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import as_int, decode_json
from mm2.election.kafka.group_messages import SHARED, decode_members, dump_json, member_json
from mm2.election.protocol import Json, MemberInfo

MOST_BYTES = 1_000_000
"""Limit of the message. ZooKeeper's servers close the connection without an error for requests larger than
jute.maxbuffer, 1,048,575 bytes by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceMessage:
    """The result of one rebalance."""

    leader_id: str
    members: Mapping[str, MemberInfo]
    answers: Mapping[str, Json]


def encode_round(decided: RebalanceMessage) -> bytes:
    """Return the bytes for the znode."""
    message: dict[str, Json] = {
        "leader": decided.leader_id,
        "members": {member_id: member_json(info) for member_id, info in decided.members.items()},
    }
    if all(SHARED in info.features for info in decided.members.values()):
        shared: dict[int, Json] = {id(answer): answer for answer in decided.answers.values()}
        numbers = {key: number for number, key in enumerate(shared)}
        message["shared"] = [*shared.values()]
        message["answer"] = {one: numbers[id(answer)] for one, answer in decided.answers.items()}
    else:
        message["answers"] = dict(decided.answers)
    return dump_json(message)


def decode_round(raw: bytes) -> RebalanceMessage | None:
    """Read the bytes of the znode; None if there was no rebalance yet, or another version wrote it."""
    try:
        message = decode_json(raw, "rebalance")
        leader, members = message["leader"], message["members"]
        if "shared" in message:
            shared = message["shared"]
            answers = {one: shared[as_int(number)] for one, number in message["answer"].items()}
        else:
            answers = dict(message["answers"])
    except (FormatError, TypeError, KeyError, IndexError, AttributeError, ValueError):
        return None
    if not isinstance(members, dict):
        return None
    return RebalanceMessage(leader_id=str(leader), members=decode_members(members), answers=answers)
