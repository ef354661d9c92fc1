"""What the leader writes into the znode ``round``: one round, whole, as JSON.

    {"leader": member id, "members": {member id: {"node": str, …}}, "answers": {member id: any JSON}}

The generation is not in it: it is the znode's version. ``answers`` names everybody who takes part, ``members`` those
whose words could be read (`mm2.election.group_messages`). Unknown keys are ignored, for rolling upgrades.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from mm2.election.group_messages import decode_member_json, member_json
from mm2.election.protocol import Json, MemberInfo

MOST_BYTES = 1_000_000
"""ZooKeeper's servers refuse more than jute.maxbuffer, 1,048,575 bytes by default, by hanging up without a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What was decided in one generation."""

    leader_id: str
    members: Mapping[str, MemberInfo]
    answers: Mapping[str, Json]


def encode_round(decided: Round) -> bytes:
    """The bytes for the znode."""
    message = {
        "leader": decided.leader_id,
        "members": {member_id: member_json(info) for member_id, info in decided.members.items()},
        "answers": dict(decided.answers),
    }
    return json.dumps(message, separators=(",", ":"), sort_keys=True).encode()


def decode_round(raw: bytes) -> Round | None:
    """None for what is not a round: nothing was decided yet, or by another version."""
    try:
        message = json.loads(raw)
        leader, members, answers = message["leader"], message["members"], message["answers"]
        infos = {str(one): decode_member_json(told) for one, told in members.items()}
        return Round(
            leader_id=str(leader),
            members={one: info for one, info in infos.items() if info is not None},
            answers=dict(answers),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
