"""Messages between the members of a consumer group, byte for byte as Java's ConsumerProtocol.

    subscription  version:INT16  topics:[STRING]  user data:BYTES
                  from version 1:  owned:[topic:STRING partitions:[INT32]]
                  from version 2:  generation:INT32
                  from version 3:  rack:STRING, or null
    assignment    version:INT16  [topic:STRING partitions:[INT32]]  user data:BYTES

    STRING        length:INT16  UTF-8 bytes
    BYTES         length:INT32  bytes; the length of null is -1
    [element]     count:INT32  elements
    numbers       signed, big-endian

A later version only appends fields, so any version is read up to the last field that is used, as in Java. Version 0 is
written, which every consumer reads: the assignors use the topics alone, and members that give up all partitions
before they rejoin own none.
"""

from __future__ import annotations

from collections.abc import Iterable

from mm2.core.naming.names import TopicPartition
from mm2.core.wire.formats import Fields, FormatError, encode_string, pack

_VERSION = 0
_NULL_BYTES = pack(">i", -1)


def encode_subscription(topics: Iterable[str]) -> bytes:
    """Return the metadata of a member that subscribes to ``topics``. Equal sets of topics give equal bytes.

    Raises FormatError for a name that is too long.
    """
    names = sorted(set(topics))
    return pack(">hi", _VERSION, len(names)) + b"".join(map(encode_string, names)) + _NULL_BYTES


def decode_subscription(data: bytes) -> list[str]:
    """Return the topics of a member's metadata. Raises FormatError."""
    fields = _after_version("subscription", data)
    return [fields.string("topic") for _ in range(_count(fields, "topics"))]


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """Return the assignment of one member. Raises FormatError for a name that is too long."""
    topics: dict[str, list[int]] = {}
    for one in sorted(set(partitions)):
        topics.setdefault(one.topic, []).append(one.partition)
    encoded = [pack(">hi", _VERSION, len(topics))]
    for topic, numbers in topics.items():
        encoded += [encode_string(topic), pack(f">i{len(numbers)}i", len(numbers), *numbers)]
    return b"".join(encoded) + _NULL_BYTES


def decode_assignment(data: bytes) -> set[TopicPartition]:
    """Return the partitions of an assignment. Raises FormatError.

    Empty bytes are an empty assignment: the broker sends them to a member that the leader did not mention.
    """
    if not data:
        return set()
    fields = _after_version("assignment", data)
    partitions: set[TopicPartition] = set()
    for _ in range(_count(fields, "topics")):
        topic = fields.string("topic")
        partitions |= {
            TopicPartition(topic, fields.int32("partition")) for _ in range(_count(fields, f"partitions of {topic}"))
        }
    return partitions


def _after_version(what: str, data: bytes) -> Fields:
    fields = Fields(f"consumer {what}", data)
    version = fields.int16("version")
    if version < 0:
        raise FormatError(f"cannot read consumer {what}: version {version} is not supported")
    return fields


def _count(fields: Fields, what: str) -> int:
    count = fields.int32(what)
    if not 0 <= count <= fields.left:
        raise FormatError(f"cannot read consumer protocol: {count} {what}, but {fields.left} bytes are left")
    return count
