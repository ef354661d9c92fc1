"""Pauses by operators, stored by the leader in ``mm2-configs.*`` for all nodes and later leaders.

    mm2-paused      {"flow":false,"topics":["orders"],"since":{"orders":1763740800000},
                     "origins":[{"who":"alice","reason":"CHG-1234","topics":["orders"]}]}

``since`` is when each pause began, in milliseconds since 1970, by topic; "" is the whole flow. Of a record without it,
the time of the record counts: the pause began then, or before. ``origins`` has who paused, and why: a reason can have
500 characters, and is written once for all topics that were paused with it. Older releases ignore both.

Java skips unknown keys (KafkaConfigBackingStore), and pauses whole connectors under keys of its own.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from mm2.core.printable import one_line
from mm2.core.problems.times_in_words import utc_text
from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import decode_json

KEY = b"mm2-paused"

WHOLE_FLOW = ""
"""Stands for the flow as a whole in `Pauses.named`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseOrigin:
    """Who paused, and why."""

    who: str = field(metadata={"description": "name of the token with which the command was sent"})
    reason: str | None = field(
        default=None, metadata={"description": "why, in the operator's words; null: none was given"}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """``flow``: the whole flow is paused. ``topics``: these topics are paused, by their names on the source.

    ``since`` has the time of each of `named`, in milliseconds since 1970, and ``origins`` who paused it, and why; what
    is unknown is in neither.
    """

    flow: bool = False
    topics: frozenset[str] = frozenset()
    since: Mapping[str, int] = field(default_factory=dict)
    origins: Mapping[str, PauseOrigin] = field(default_factory=dict)

    def covers(self, topic: str) -> bool:
        """Return whether ``topic`` is paused."""
        return self.flow or topic in self.topics

    @property
    def named(self) -> tuple[str, ...]:
        """Topics to show as paused; an empty string stands for the whole flow."""
        return (*((WHOLE_FLOW,) if self.flow else ()), *sorted(self.topics))

    def pause(self, topics: tuple[str, ...], at: int, origin: PauseOrigin) -> Pauses:
        """Return these pauses with ``topics`` added; without topics, with the whole flow paused.

        ``at`` is the time in milliseconds since 1970. What is paused already keeps its own, and its origin unless this
        one has a reason.
        """
        added = replace(self, topics=self.topics | set(topics)) if topics else replace(self, flow=True)
        commanded = topics or (WHOLE_FLOW,)
        explained = {name for name in commanded if origin.reason is not None or name not in self.named}
        return replace(
            added,
            since={name: self.since.get(name, at) for name in added.named},
            origins={**self.origins, **dict.fromkeys(sorted(explained), origin)},
        )

    def resume(self, topics: tuple[str, ...]) -> Pauses:
        """Return these pauses without ``topics``; without topics, no pauses."""
        if not topics:
            return Pauses()
        left = replace(self, topics=self.topics - set(topics))
        return replace(
            left,
            since={name: at for name, at in self.since.items() if name in left.named},
            origins={name: origin for name, origin in self.origins.items() if name in left.named},
        )


NO_PAUSES = Pauses()

_YEAR_10000_MS = 253_402_300_800_000

_NAMED = 10
"""Paused topics that a message names; `GET /flows` has all."""


def pauses_flow(named: Collection[str], topics: Collection[str]) -> bool:
    """Return whether the pauses ``named`` (`Pauses.named`) cover all of a flow with these source topics."""
    return WHOLE_FLOW in named or (bool(topics) and set(topics).issubset(named))


def pause_message(named: Collection[str], since: Mapping[str, int], origins: Mapping[str, PauseOrigin]) -> str | None:
    """Return what is paused, since when, by whom and why, as a message; None: nothing is."""
    if not named:
        return None
    if WHOLE_FLOW in named:
        about = about_pause(WHOLE_FLOW, since, origins)
        return f"the whole flow is paused by an operator{about}; mm2 resume ends the pause"
    names = sorted(named)
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    abouts = {about_pause(name, since, origins) for name in names}
    if len(abouts) == 1:
        listed, about = ", ".join(names[:_NAMED]), abouts.pop()
    else:
        listed, about = ", ".join(f"{name}{about_pause(name, since, origins)}" for name in names[:_NAMED]), ""
    return f"paused by an operator{about}: {listed}{more}; mm2 resume ends the pause"


def about_pause(name: str, since: Mapping[str, int], origins: Mapping[str, PauseOrigin]) -> str:
    """Return what follows the name of what is paused: `` since 2026-01-31T12:00:00Z (alice: CHG-1234)``; empty if
    neither the time nor who paused it is known."""
    at, origin = since.get(name), origins.get(name)
    text = "" if at is None else f" since {utc_text(at / 1_000)}"
    if origin is not None:
        why = "" if origin.reason is None else f": {origin.reason}"
        text += f" ({one_line(origin.who + why)})"
    return text


def encode_pauses(pauses: Pauses) -> bytes:
    """Return the record's value."""
    value: dict[str, object] = {"flow": pauses.flow, "topics": sorted(pauses.topics)}
    if pauses.since:
        value["since"] = dict(sorted(pauses.since.items()))
    if pauses.origins:
        named: dict[PauseOrigin, list[str]] = {}
        for name, origin in sorted(pauses.origins.items()):
            named.setdefault(origin, []).append(name)
        value["origins"] = [
            {"who": origin.who, "reason": origin.reason, "topics": names} for origin, names in named.items()
        ]
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def decode_pauses(value: bytes | None, recorded: int | None = None) -> Pauses:
    """Read the record's value; None means that nothing is paused. Raises FormatError.

    ``recorded`` is the timestamp of the record in milliseconds since 1970; None: unknown.
    """
    if value is None:
        return NO_PAUSES
    match decode_json(value, "pauses"):
        case {"flow": bool(flow), "topics": list(topics), **rest} if all(isinstance(topic, str) for topic in topics):
            read = Pauses(flow=flow, topics=frozenset(topics))
            known = rest.get("since")
            times = known if isinstance(known, dict) else {}
            since = {name: _time(times.get(name), recorded) for name in read.named}
            return replace(
                read,
                since={name: at for name, at in since.items() if at is not None},
                origins={name: one for name, one in _origins(rest.get("origins")) if name in read.named},
            )
    raise FormatError(f"cannot read pauses: not {{flow, topics}}: {value!r:.200}")


def _time(value: object, recorded: int | None) -> int | None:
    return value if isinstance(value, int) and 0 < value < _YEAR_10000_MS else recorded


def _origins(value: object) -> Iterator[tuple[str, PauseOrigin]]:
    for one in value if isinstance(value, list) else ():
        match one:
            case {"who": str(who), "reason": str() | None as reason, "topics": list(names)}:
                origin = PauseOrigin(who=who, reason=reason)
                yield from ((name, origin) for name in names if isinstance(name, str))
