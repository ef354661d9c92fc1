"""Lists that a leader publishes in ``mm2-configs.*``, each under a number, and in parts where one record is too small.

    <prefix><number>            {"epoch":7,"version":3,"part":0,"parts":2,…}
    <prefix><number>.<part>     the further parts of a list that is too long for one record

Java skips keys it does not know (mm2-compat §2.4). A list that is gone is published empty rather than as a null value,
since a null value has no epoch to be judged by.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from mm2.core.formats import FormatError

PART_BYTES = 512 * 1024  # half of what a broker takes by default (message.max.bytes), since that counts the batch

_INT32_MAX = 2**31 - 1
_NEVER = (-1, -1)

Age = tuple[int, int]
"""Epoch and version: the epoch of the leader that decided the list, and a number that grows with each of its decisions
on it. A list of a lower age is void."""

Content = TypeVar("Content")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(Generic[Content]):
    """What one record says: part ``part`` of ``parts`` of list ``number``."""

    number: int
    epoch: int
    version: int
    part: int
    parts: int
    content: Content

    @property
    def age(self) -> Age:
        """For comparing."""
        return self.epoch, self.version


def encode_part(prefix: str, part: Part[Mapping[str, Any]]) -> tuple[bytes, bytes]:
    """Key and value; the content stands beside the rest."""
    value = {"epoch": part.epoch, "version": part.version, "part": part.part, "parts": part.parts, **part.content}
    key = f"{prefix}{part.number}" + (f".{part.part}" if part.part else "")
    return key.encode(), json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def decode_part(
    key: bytes | None, value: bytes | None, *, prefix: str, what: str, content: Callable[[Any], Content]
) -> Part[Content]:
    """Read one record. ``what`` a list is of, for errors; ``content`` reads what stands beside the rest. Raises
    FormatError, also for a null value."""
    text = (key or b"").decode(errors="replace")
    found = re.fullmatch(re.escape(prefix) + r"(\d{1,9})(?:\.(\d{1,9}))?", text)
    if found is None:
        raise FormatError(f"read {what}: no such key: {key!r:.200}")
    try:
        message: Any = json.loads((value or b"").decode())
        part = Part(
            number=int(found[1]),
            epoch=number(message["epoch"]),
            version=number(message["version"]),
            part=number(message["part"]),
            parts=number(message["parts"]),
            content=content(message),
        )
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
        raise FormatError(f"read {what} {found[1]}: {error!r}: {value!r:.200}") from None
    if part.part != int(found[2] or 0) or part.part >= part.parts:
        raise FormatError(f"read {what} {found[1]}: part {part.part} of {part.parts} under key {found[0]}")
    return part


@dataclass(slots=True)
class Arrivals(Generic[Content]):
    """Lists of which some parts were read, in the order of the topic.

    (A) A list counts once all its parts were read; until then the one before it does.
    (B) What is older than the newest list of a number changes nothing: a leader that was replaced wrote it.
    """

    _arriving: dict[int, tuple[Age, dict[int, Content]]] = field(default_factory=dict)

    def take(self, part: Part[Content], newest: Age | None) -> list[Content] | None:
        """All parts of the list, if this was the last one that was missing. ``newest``: the age of the list that
        counts by now."""
        started, arrived = self._arriving.get(part.number, (_NEVER, {}))
        if part.age < started or (newest is not None and part.age <= newest):
            return None
        if part.age > started:
            arrived = {}
        arrived[part.part] = part.content
        self._arriving[part.number] = part.age, arrived
        if len(arrived) < part.parts:
            return None
        del self._arriving[part.number]
        return list(arrived.values())


def next_epoch(generation: int, ages: Iterable[Age]) -> int:
    """Under what epoch a new leader writes. The group's ``generation``, unless the group had been gone and began to
    count anew: what it then writes must still be newer than what is there, which has these ``ages``."""
    return max([generation, *(epoch + 1 for epoch, _ in ages)])


def number(value: Any) -> int:
    """A number of a record. Raises ValueError."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _INT32_MAX:
        raise ValueError(f"{value!r} is no number from 0 to {_INT32_MAX}")
    return value
