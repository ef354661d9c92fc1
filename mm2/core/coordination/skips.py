"""Skips by operators, stored by the leader in ``mm2-configs.*`` for all nodes and later leaders.

    mm2-skips       {"skips":[{"topic":"orders","partition":0,"offset":1042}]}

A partition that cannot copy what is at its ``offset`` leaves it out. The leader removes an entry once a later source
offset is stored. Java skips unknown keys (KafkaConfigBackingStore).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mm2.core.naming.names import TopicPartition
from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import decode_json

KEY = b"mm2-skips"


@dataclass(frozen=True, slots=True)
class Skips:
    """The source offset to skip in each partition."""

    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)

    def of(self, partitions: Iterable[TopicPartition]) -> Skips:
        """Return the skips of these partitions."""
        if not self.offsets:
            return NO_SKIPS
        return Skips({one: self.offsets[one] for one in partitions if one in self.offsets})

    def skip(self, partition: TopicPartition, offset: int) -> Skips:
        """Return these skips with one added; it replaces an earlier one of the partition."""
        return Skips({**self.offsets, partition: offset})

    def still_due(self, positions: Mapping[TopicPartition, int | None]) -> Skips:
        """Return these skips without those behind which copying would resume, by the stored ``positions``."""
        return Skips({one: offset for one, offset in self.offsets.items() if (positions.get(one) or 0) <= offset})


NO_SKIPS = Skips()


def encode_skips(skips: Skips) -> bytes:
    """Return the record's value."""
    entries = [
        {"topic": one.topic, "partition": one.partition, "offset": offset}
        for one, offset in sorted(skips.offsets.items())
    ]
    return json.dumps({"skips": entries}, ensure_ascii=False, separators=(",", ":")).encode()


def decode_skips(value: bytes | None) -> Skips:
    """Read the record's value; None means that nothing is to be skipped. Raises FormatError."""
    if value is None:
        return NO_SKIPS
    match decode_json(value, "skips"):
        case {"skips": list(entries)}:
            return Skips(dict(_decode(entry, value) for entry in entries))
    raise FormatError(f"cannot read skips: not {{skips}}: {value!r:.200}")


def _decode(entry: object, value: bytes) -> tuple[TopicPartition, int]:
    match entry:
        case {"topic": str(topic), "partition": int(partition), "offset": int(offset)}:
            return TopicPartition(topic, partition), offset
    raise FormatError(f"cannot read skips: not {{topic, partition, offset}}: {value!r:.200}")
