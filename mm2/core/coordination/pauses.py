"""Pauses by operators, stored by the leader in ``mm2-configs.*`` for all nodes and later leaders.

    mm2-paused      {"flow":false,"topics":["orders"]}

Java skips unknown keys (KafkaConfigBackingStore), and pauses whole connectors under keys of its own.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace

from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import decode_json

KEY = b"mm2-paused"

WHOLE_FLOW = ""
"""Stands for the flow as a whole in `Pauses.named`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """``flow``: the whole flow is paused. ``topics``: these topics are paused, by their names on the source."""

    flow: bool = False
    topics: frozenset[str] = frozenset()

    def covers(self, topic: str) -> bool:
        """Return whether ``topic`` is paused."""
        return self.flow or topic in self.topics

    @property
    def named(self) -> tuple[str, ...]:
        """Topics to show as paused; an empty string stands for the whole flow."""
        return (*((WHOLE_FLOW,) if self.flow else ()), *sorted(self.topics))

    def pause(self, topics: tuple[str, ...]) -> Pauses:
        """Return these pauses with ``topics`` added; without topics, with the whole flow paused."""
        return replace(self, topics=self.topics | set(topics)) if topics else replace(self, flow=True)

    def resume(self, topics: tuple[str, ...]) -> Pauses:
        """Return these pauses without ``topics``; without topics, no pauses."""
        return replace(self, topics=self.topics - set(topics)) if topics else Pauses()


NO_PAUSES = Pauses()

_NAMED = 10
"""Paused topics that a message names; `GET /flows` has all."""


def pauses_flow(named: Collection[str], topics: Collection[str]) -> bool:
    """Return whether the pauses ``named`` (`Pauses.named`) cover all of a flow with these source topics."""
    return WHOLE_FLOW in named or (bool(topics) and set(topics).issubset(named))


def pause_message(named: Collection[str]) -> str | None:
    """Return what is paused, as a message; None: nothing is."""
    if not named:
        return None
    if WHOLE_FLOW in named:
        return "the whole flow is paused by an operator; mm2 resume ends the pause"
    names = sorted(named)
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"paused by an operator: {', '.join(names[:_NAMED])}{more}; mm2 resume ends the pause"


def encode_pauses(pauses: Pauses) -> bytes:
    """Return the record's value."""
    value = {"flow": pauses.flow, "topics": sorted(pauses.topics)}
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def decode_pauses(value: bytes | None) -> Pauses:
    """Read the record's value; None means that nothing is paused. Raises FormatError."""
    if value is None:
        return NO_PAUSES
    match decode_json(value, "pauses"):
        case {"flow": bool(flow), "topics": list(topics)} if all(isinstance(topic, str) for topic in topics):
            return Pauses(flow=flow, topics=frozenset(topics))
    raise FormatError(f"cannot read pauses: not {{flow, topics}}: {value!r:.200}")
