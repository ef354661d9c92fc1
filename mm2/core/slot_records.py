"""Which partitions each slot copies, as the leader publishes it in ``mm2-configs.*`` beside Java's records.

    mm2-slots-<slot>            {"epoch":7,"version":3,"part":0,"parts":2,"partitions":{"orders":[0,2],…},
                                 "ids":{"orders":["<source topic id>","<remote topic id>"],…}}
    mm2-slots-<slot>.<part>     the further parts of a slot whose list is too long for one record

Java skips keys it does not know (mm2-compat §2.4). Nothing but names of topics and numbers is in these records. A slot
that is gone has an empty list rather than a null value, since a null value has no epoch to be judged by.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from mm2.core.exact_offset_records import UNKNOWN_IDS, TopicIds
from mm2.core.formats import FormatError
from mm2.core.names import TopicPartition

KEY_PREFIX = "mm2-slots-"
PART_BYTES = 512 * 1024  # half of what a broker takes by default (message.max.bytes), since that counts the batch
_KEY = re.compile(r"mm2-slots-(\d{1,9})(?:\.(\d{1,9}))?")
_INT32_MAX = 2**31 - 1
_ROOM_FOR_IDS = len('"":[],') + len('"":["",""],') + 2 * 36  # what is around a topic's name, and its two ids


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRecord:
    """All that slot ``slot`` copies, as a leader of ``epoch`` decided; ``version`` grows with each of its decisions on
    this slot. A list of a lower (epoch, version) is void. ``topic_ids``: of the topics whose ids are known."""

    slot: int
    epoch: int
    version: int
    partitions: frozenset[TopicPartition]
    topic_ids: Mapping[str, TopicIds] = field(default_factory=dict)

    @property
    def age(self) -> tuple[int, int]:
        """Higher is newer."""
        return self.epoch, self.version


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotPart:
    """One record of it."""

    record: SlotRecord
    part: int
    parts: int


def encode_slot(record: SlotRecord, *, part_bytes: int = PART_BYTES) -> list[tuple[bytes, bytes]]:
    """Keys and values, each value of about ``part_bytes`` at most. They count only together."""
    parts = list(_parted(record.partitions, part_bytes))
    encoded = []
    for number, partitions in enumerate(parts):
        value = {
            "epoch": record.epoch,
            "version": record.version,
            "part": number,
            "parts": len(parts),
            "partitions": partitions,
            "ids": {topic: _id_texts(record.topic_ids[topic]) for topic in partitions if topic in record.topic_ids},
        }
        key = f"{KEY_PREFIX}{record.slot}" + (f".{number}" if number else "")
        encoded.append((key.encode(), json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()))
    return encoded


def is_slot_key(key: bytes | None) -> bool:
    """Whether the record is one of these."""
    return key is not None and key.startswith(KEY_PREFIX.encode())


def decode_slot(key: bytes | None, value: bytes | None) -> SlotPart:
    """Read one record. Raises FormatError, also for a null value."""
    found = _KEY.fullmatch((key or b"").decode(errors="replace"))
    if found is None:
        raise FormatError(f"read slot: no such key: {key!r:.200}")
    try:
        message: Any = json.loads((value or b"").decode())
        record = SlotRecord(
            slot=int(found[1]),
            epoch=_number(message["epoch"]),
            version=_number(message["version"]),
            partitions=frozenset(
                TopicPartition(topic, _number(number))
                for topic, numbers in message["partitions"].items()
                for number in numbers
            ),
            topic_ids={topic: _topic_ids(texts) for topic, texts in message.get("ids", {}).items()},
        )
        part = SlotPart(record=record, part=_number(message["part"]), parts=_number(message["parts"]))
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
        raise FormatError(f"read slot {found[1]}: {error!r}: {value!r:.200}") from None
    if part.part != int(found[2] or 0) or part.part >= part.parts:
        raise FormatError(f"read slot {found[1]}: part {part.part} of {part.parts} under key {found[0]}")
    return part


@dataclass(slots=True)
class SlotBook:
    """The newest list of each slot, from records in the order of the topic.

    (A) A list counts once all its parts were read; until then the one before it does.
    (B) What is older than the newest list of a slot changes nothing: a leader that was replaced wrote it.
    """

    records: dict[int, SlotRecord] = field(default_factory=dict)
    _arriving: dict[int, dict[int, SlotPart]] = field(default_factory=dict)

    def take(self, part: SlotPart) -> bool:
        """Whether a slot's list is another one now."""
        record = part.record
        newest = self.records.get(record.slot)
        arriving = self._arriving.get(record.slot, {})
        started = max((other.record.age for other in arriving.values()), default=(-1, -1))
        if record.age < started or (newest is not None and record.age <= newest.age):
            return False
        if record.age > started:
            arriving = {}
        arriving[part.part] = part
        self._arriving[record.slot] = arriving
        if len(arriving) < part.parts:
            return False
        del self._arriving[record.slot]
        records = [one.record for one in arriving.values()]
        self.records[record.slot] = SlotRecord(
            slot=record.slot,
            epoch=record.epoch,
            version=record.version,
            partitions=frozenset[TopicPartition]().union(*(one.partitions for one in records)),
            topic_ids={topic: ids for one in records for topic, ids in one.topic_ids.items()},
        )
        return True

    def epoch_of_next_leader(self, generation: int) -> int:
        """Under what epoch a new leader writes. The group's ``generation``, unless the group had been gone and began to
        count anew: what it then writes must still be newer than what is there."""
        return max([generation, *(record.epoch + 1 for record in self.records.values())])

    def previous(self) -> dict[TopicPartition, int]:
        """The slot of each partition, for `assignment.spread`."""
        newest_last = sorted(self.records.values(), key=lambda record: record.age)
        return {partition: record.slot for record in newest_last for partition in record.partitions}


def _parted(partitions: Collection[TopicPartition], part_bytes: int) -> Iterable[dict[str, list[int]]]:
    """At least one part, which may be empty."""
    part: dict[str, list[int]] = {}
    size = 0
    for one in sorted(partitions, key=lambda one: (one.topic, one.partition)):
        name, number = 2 * len(one.topic.encode()) + _ROOM_FOR_IDS, len(str(one.partition)) + 1
        if part and size + number + (0 if one.topic in part else name) > part_bytes:
            yield part
            part, size = {}, 0
        size += number + (0 if one.topic in part else name)
        part.setdefault(one.topic, []).append(one.partition)
    yield part


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _INT32_MAX:
        raise ValueError(f"{value!r} is no number from 0 to {_INT32_MAX}")
    return value


def _id_texts(ids: TopicIds) -> list[str | None]:
    return [None if one is None else str(one) for one in ids]


def _topic_ids(texts: Any) -> TopicIds:
    source, remote = (None if text is None else UUID(text) for text in texts)
    return UNKNOWN_IDS._replace(source=source, remote=remote)
