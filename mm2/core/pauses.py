"""What operators have paused, as the leader keeps it in ``mm2-configs.*`` for every node and for the next leader.

    mm2-paused      {"flow":false,"topics":["orders"]}

Java skips keys it does not know (mm2-compat §2.4), and pauses whole connectors under keys of its own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from mm2.core.formats import FormatError

KEY = b"mm2-paused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """``flow``: nothing of the flow is copied. ``topics``: these are not, by their names on the source."""

    flow: bool = False
    topics: frozenset[str] = frozenset()

    def covers(self, topic: str) -> bool:
        """Whether ``topic`` is not to be copied."""
        return self.flow or topic in self.topics

    @property
    def named(self) -> tuple[str, ...]:
        """As it is shown: the topics, and an empty text for the whole flow."""
        return (*(("",) if self.flow else ()), *sorted(self.topics))

    def pause(self, topics: tuple[str, ...]) -> Pauses:
        """With ``topics`` paused too; none: the flow."""
        return replace(self, topics=self.topics | set(topics)) if topics else replace(self, flow=True)

    def resume(self, topics: tuple[str, ...]) -> Pauses:
        """Without a pause of ``topics``; none: without any."""
        return replace(self, topics=self.topics - set(topics)) if topics else Pauses()


NO_PAUSES = Pauses()


def encode_pauses(pauses: Pauses) -> bytes:
    """The record's value."""
    value = {"flow": pauses.flow, "topics": sorted(pauses.topics)}
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def decode_pauses(value: bytes | None) -> Pauses:
    """None: nothing is paused. Raises FormatError."""
    if value is None:
        return NO_PAUSES
    try:
        message: Any = json.loads(value.decode())
    except (ValueError, RecursionError) as error:
        raise FormatError(f"read pauses: {error}: {value!r:.200}") from None
    match message:
        case {"flow": bool(flow), "topics": list(topics)} if all(isinstance(topic, str) for topic in topics):
            return Pauses(flow=flow, topics=frozenset(topics))
    raise FormatError(f"read pauses: it is not {{flow, topics}}: {value!r:.200}")
