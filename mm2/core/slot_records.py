"""Which partitions each slot copies, as the leader publishes it in ``mm2-configs.*`` beside Java's records.

    mm2-slots-<slot>            {"epoch":7,"version":3,"part":0,"parts":2,"partitions":{"orders":[0,2],…},
                                 "ids":{"orders":["<source topic id>","<remote topic id>"],…}}
    mm2-slots-<slot>.<part>     the further parts of a slot whose list is too long for one record (`parted_lists`)

Nothing but names of topics and numbers is in these records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from mm2.core.exact_offset_records import UNKNOWN_IDS, TopicIds
from mm2.core.names import TopicPartition
from mm2.core.parted_lists import PART_BYTES, Age, Arrivals, Part, decode_part, encode_part, next_epoch, number

KEY_PREFIX = "mm2-slots-"
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
    def age(self) -> Age:
        """Higher is newer."""
        return self.epoch, self.version


class Listed(NamedTuple):
    """What one record lists."""

    partitions: frozenset[TopicPartition]
    topic_ids: Mapping[str, TopicIds]


def encode_slot(record: SlotRecord, *, part_bytes: int = PART_BYTES) -> list[tuple[bytes, bytes]]:
    """Keys and values, each value of about ``part_bytes`` at most. They count only together."""
    parts = list(_parted(record.partitions, part_bytes))
    encoded = []
    for at, partitions in enumerate(parts):
        ids = {topic: _id_texts(record.topic_ids[topic]) for topic in partitions if topic in record.topic_ids}
        content: Mapping[str, Any] = {"partitions": partitions, "ids": ids}
        part = Part(
            number=record.slot,
            epoch=record.epoch,
            version=record.version,
            part=at,
            parts=len(parts),
            content=content,
        )
        encoded.append(encode_part(KEY_PREFIX, part))
    return encoded


def is_slot_key(key: bytes | None) -> bool:
    """Whether the record is one of these."""
    return key is not None and key.startswith(KEY_PREFIX.encode())


def decode_slot(key: bytes | None, value: bytes | None) -> Part[Listed]:
    """Read one record. Raises FormatError, also for a null value."""
    return decode_part(key, value, prefix=KEY_PREFIX, what="slot", content=_listed)


@dataclass(slots=True)
class SlotBook:
    """The newest list of each slot, from records in the order of the topic; (A) and (B) of `Arrivals` hold for it."""

    records: dict[int, SlotRecord] = field(default_factory=dict)
    _arrivals: Arrivals[Listed] = field(default_factory=Arrivals)

    def take(self, part: Part[Listed]) -> bool:
        """Whether a slot's list is another one now."""
        newest = self.records.get(part.number)
        parts = self._arrivals.take(part, newest.age if newest is not None else None)
        if parts is None:
            return False
        self.records[part.number] = SlotRecord(
            slot=part.number,
            epoch=part.epoch,
            version=part.version,
            partitions=frozenset[TopicPartition]().union(*(one.partitions for one in parts)),
            topic_ids={topic: ids for one in parts for topic, ids in one.topic_ids.items()},
        )
        return True

    def epoch_of_next_leader(self, generation: int) -> int:
        """Under what epoch a new leader of the group's ``generation`` writes (`next_epoch`)."""
        return next_epoch(generation, (record.age for record in self.records.values()))


def _parted(partitions: Collection[TopicPartition], part_bytes: int) -> Iterable[dict[str, list[int]]]:
    """At least one part, which may be empty."""
    part: dict[str, list[int]] = {}
    size = 0
    for one in sorted(partitions, key=lambda one: (one.topic, one.partition)):
        name, digits = 2 * len(one.topic.encode()) + _ROOM_FOR_IDS, len(str(one.partition)) + 1
        if part and size + digits + (0 if one.topic in part else name) > part_bytes:
            yield part
            part, size = {}, 0
        size += digits + (0 if one.topic in part else name)
        part.setdefault(one.topic, []).append(one.partition)
    yield part


def _listed(message: Any) -> Listed:
    return Listed(
        frozenset(
            TopicPartition(topic, number(one)) for topic, numbers in message["partitions"].items() for one in numbers
        ),
        {topic: _topic_ids(texts) for topic, texts in message.get("ids", {}).items()},
    )


def _id_texts(ids: TopicIds) -> list[str | None]:
    return [None if one is None else str(one) for one in ids]


def _topic_ids(texts: Any) -> TopicIds:
    source, remote = (None if text is None else UUID(text) for text in texts)
    return UNKNOWN_IDS._replace(source=source, remote=remote)
