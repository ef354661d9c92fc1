"""What operators have paused, stored by the leader in ``mm2-configs.*`` for all nodes and later leaders.

    mm2-paused      {"flow":false,"topics":["orders"]}

Java skips unknown keys (KafkaConfigBackingStore), and pauses whole connectors under keys of its own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import decode_json

KEY = b"mm2-paused"


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
        return (*(("",) if self.flow else ()), *sorted(self.topics))

    def pause(self, topics: tuple[str, ...]) -> Pauses:
        """Return these pauses with ``topics`` added; without topics, with the whole flow paused."""
        return replace(self, topics=self.topics | set(topics)) if topics else replace(self, flow=True)

    def resume(self, topics: tuple[str, ...]) -> Pauses:
        """Return these pauses without ``topics``; without topics, no pauses."""
        return replace(self, topics=self.topics - set(topics)) if topics else Pauses()


NO_PAUSES = Pauses()


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
