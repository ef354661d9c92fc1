"""Numbered lists that a leader publishes in ``mm2-configs.*``, split into parts if one record is too small.

    <prefix><number>            {"epoch":7,"version":3,"part":0,"parts":2,…}
    <prefix><number>.<part>     additional parts of a list that is too long for one record

Java skips unknown keys (KafkaConfigBackingStore). A removed list is published empty rather than as a null value,
because a null value has no epoch to compare.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import decode_json

PART_BYTES = 512 * 1024  # half of a broker's default message.max.bytes, which limits the whole batch

_INT32_MAX = 2**31 - 1
_NEVER = (-1, -1)

Age = tuple[int, int]
"""Epoch and version: the epoch of the leader that published the list, and a number that increases with each list it
publishes. A list with a lower age is void."""

Content = TypeVar("Content")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk(Generic[Content]):
    """The content of one record: part ``part`` of ``parts`` of list ``number``."""

    number: int
    epoch: int
    version: int
    part: int
    parts: int
    content: Content

    @property
    def age(self) -> Age:
        """Epoch and version, for comparison."""
        return self.epoch, self.version


def encode_list(prefix: str, number: int, age: Age, contents: Sequence[Mapping[str, Any]]) -> list[tuple[bytes, bytes]]:
    """Return key and value of each part of list ``number``; they are valid only together."""
    encoded = []
    for part, content in enumerate(contents):
        value = {"epoch": age[0], "version": age[1], "part": part, "parts": len(contents), **content}
        key = f"{prefix}{number}" + (f".{part}" if part else "")
        encoded.append((key.encode(), json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()))
    return encoded


def decode_chunk(
    key: bytes | None, value: bytes | None, *, prefix: str, what: str, content: Callable[[Any], Content]
) -> Chunk[Content]:
    """Read one record.

    ``what`` names the kind of list in errors; ``content`` reads its specific fields. Raises FormatError, also for a
    null value.
    """
    text = (key or b"").decode(errors="replace")
    found = re.fullmatch(re.escape(prefix) + r"(\d{1,9})(?:\.(\d{1,9}))?", text)
    if found is None:
        raise FormatError(f"cannot read {what}: invalid key: {key!r:.200}")
    try:
        message = decode_json(value, what)
        part = Chunk(
            number=int(found[1]),
            epoch=number(message["epoch"]),
            version=number(message["version"]),
            part=number(message["part"]),
            parts=number(message["parts"]),
            content=content(message),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise FormatError(f"cannot read {what} {found[1]}: {error!r}: {value!r:.200}") from None
    if part.part != int(found[2] or 0) or part.part >= part.parts:
        raise FormatError(f"cannot read {what} {found[1]}: part {part.part} of {part.parts} has key {found[0]}")
    return part


class Listed(Protocol):
    """A complete list."""

    @property
    def age(self) -> Age:
        """Epoch and version; a higher age is newer."""
        ...


List = TypeVar("List", bound=Listed)


class ListBook(ABC, Generic[Content, List]):
    """The newest list of each number, from records in the order of the topic.

    ``revision`` increases with each new list.

    (A) A list takes effect when all its parts have been read; until then the previous one does.
    (B) A list older than the newest one of its number is ignored: a former leader wrote it.
    """

    def __init__(self) -> None:
        self.records: dict[int, List] = {}
        self.revision = 0
        self._arriving: dict[int, tuple[Age, dict[int, Content]]] = {}

    @abstractmethod
    def _join(self, part: Chunk[Content], contents: Sequence[Content]) -> List:
        """Return the list with these ``contents``; ``part`` is any one of its parts."""

    def take(self, part: Chunk[Content]) -> bool:
        """Apply one record; return whether a list has changed."""
        newest = self.records.get(part.number)
        started, arrived = self._arriving.get(part.number, (_NEVER, {}))
        if part.age < started or (newest is not None and part.age <= newest.age):
            return False
        if part.age > started:
            arrived = {}
        arrived[part.part] = part.content
        self._arriving[part.number] = part.age, arrived
        if len(arrived) < part.parts:
            return False
        del self._arriving[part.number]
        self.records[part.number] = self._join(part, list(arrived.values()))
        self.revision += 1
        return True

    def epoch_of_next_leader(self, generation: int) -> int:
        """Return the epoch that a new leader writes with.

        It is the group's ``generation``. If the group was deleted and its generation restarted, it is the next epoch
        after the existing records, which the leader's records must supersede.
        """
        return max([generation, *(record.age[0] + 1 for record in self.records.values())])


def number(value: Any) -> int:
    """Return ``value`` if it is a valid number of a record. Raises ValueError."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _INT32_MAX:
        raise ValueError(f"{value!r} is not a number from 0 to {_INT32_MAX}")
    return value
