"""The binary records of the internal topics, byte for byte as Java's OffsetSync, Checkpoint and Heartbeat write them.

    offset sync   key    topic:STRING  partition:INT32
                  value  upstream:INT64  downstream:INT64
    checkpoint    key    group:STRING  topic:STRING  partition:INT32
                  value  version:INT16=0  upstream:INT64  downstream:INT64  metadata:STRING
    heartbeat     key    source:STRING  target:STRING
                  value  version:INT16=0  timestamp:INT64

    STRING        length:INT16  UTF-8 bytes
    numbers       signed, big-endian

Bytes after the last field are ignored, as in Java. A version other than 0 is rejected: Java reads it as if it were 0,
but a misread offset would move a consumer group to a wrong position.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from mm2.core.naming.names import TopicPartition

_STRING_MAX = 32_767  # bytes; the length is an INT16


class FormatError(ValueError):
    """A record, znode or file that others wrote does not match its grammar, or a value does not fit into it.

    Not retriable, because a record does not change: skip and count it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSync:
    """Source record ``upstream_offset`` of ``topic_partition`` has ``downstream_offset`` in the remote topic."""

    topic_partition: TopicPartition
    upstream_offset: int
    downstream_offset: int

    def key(self) -> bytes:
        return encode_string(self.topic_partition.topic) + pack(">i", self.topic_partition.partition)

    def value(self) -> bytes:
        return pack(">qq", self.upstream_offset, self.downstream_offset)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> OffsetSync:
        """Raises FormatError."""
        key_fields = Fields("offset sync key", key)
        topic_partition = TopicPartition(key_fields.string("topic"), key_fields.int32("partition"))
        fields = Fields("offset sync value", value)
        return cls(
            topic_partition=topic_partition,
            upstream_offset=fields.int64("upstream offset"),
            downstream_offset=fields.int64("downstream offset"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Group ``group`` committed ``upstream_offset`` on the source, which is ``downstream_offset`` on the target.

    ``topic_partition`` is the remote partition. ``metadata`` is the group's commit metadata, unchanged.
    """

    group: str
    topic_partition: TopicPartition
    upstream_offset: int
    downstream_offset: int
    metadata: str = ""

    def key(self) -> bytes:
        partition = pack(">i", self.topic_partition.partition)
        return encode_string(self.group) + encode_string(self.topic_partition.topic) + partition

    def value(self) -> bytes:
        return pack(">hqq", 0, self.upstream_offset, self.downstream_offset) + encode_string(self.metadata)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Checkpoint:
        """Raises FormatError."""
        key_fields = Fields("checkpoint key", key)
        group = key_fields.string("group")
        topic_partition = TopicPartition(key_fields.string("topic"), key_fields.int32("partition"))
        fields = Fields("checkpoint value", value)
        fields.version()
        return cls(
            group=group,
            topic_partition=topic_partition,
            upstream_offset=fields.int64("upstream offset"),
            downstream_offset=fields.int64("downstream offset"),
            metadata=fields.string("metadata"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A node of flow ``source``->``target`` wrote to the target at ``timestamp_ms`` (epoch milliseconds)."""

    source: str
    target: str
    timestamp_ms: int

    def key(self) -> bytes:
        return encode_string(self.source) + encode_string(self.target)

    def value(self) -> bytes:
        return pack(">hq", 0, self.timestamp_ms)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Heartbeat:
        """Raises FormatError."""
        key_fields = Fields("heartbeat key", key)
        source, target = key_fields.string("source alias"), key_fields.string("target alias")
        fields = Fields("heartbeat value", value)
        fields.version()
        return cls(source=source, target=target, timestamp_ms=fields.int64("timestamp"))


def pack(layout: str, *numbers: int) -> bytes:
    """Return ``struct.pack`` of the numbers. Raises FormatError if a number does not fit."""
    try:
        return struct.pack(layout, *numbers)
    except struct.error as error:
        raise FormatError(f"{numbers} does not fit: {error}") from None


def encode_unsigned(number: int) -> bytes:
    """Return the encoding that `Fields.unsigned` reads. Raises FormatError for a number below 0."""
    if number < 0:
        raise FormatError(f"{number} does not fit: it is negative")
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def encode_string(text: str) -> bytes:
    """Return ``text`` as a STRING. Raises FormatError if it is too long."""
    encoded = text.encode(errors="replace")  # half a surrogate pair becomes "?", as in Java
    if len(encoded) > _STRING_MAX:
        raise FormatError(f"a string of {len(encoded)} bytes is too long: the limit is {_STRING_MAX} ({text[:40]!r}…)")
    return struct.pack(">h", len(encoded)) + encoded


class Fields:
    """Reads one key or value from its start, field by field; each method raises FormatError if the data is invalid."""

    def __init__(self, what: str, data: bytes | None) -> None:
        if data is None:
            raise FormatError(f"cannot read {what}: it is null")
        self._what = what
        self._data = data
        self._at = 0

    def _number(self, field: str, layout: str) -> int:
        try:
            (number,) = struct.unpack_from(layout, self._data, self._at)
        except struct.error:
            raise FormatError(f"cannot read {self._what}: {field}: data ends after {len(self._data)} bytes") from None
        self._at += struct.calcsize(layout)
        return int(number)

    @property
    def left(self) -> int:
        """The bytes that were not read yet."""
        return len(self._data) - self._at

    def int16(self, field: str) -> int:
        return self._number(field, ">h")

    def int32(self, field: str) -> int:
        return self._number(field, ">i")

    def int64(self, field: str) -> int:
        return self._number(field, ">q")

    def string(self, field: str) -> str:
        length = self._number(field, ">h")
        if not 0 <= length <= self.left:
            raise FormatError(
                f"cannot read {self._what}: {field}: string of {length} bytes, but {self.left} bytes are left"
            )
        start, self._at = self._at, self._at + length
        return self._data[start : self._at].decode(errors="replace")  # invalid UTF-8 as in Java

    def unsigned(self, field: str) -> int:
        """Read a variable-length number: seven bits per byte, lowest first, the top bit set in all but the last."""
        number = shift = 0
        data, at = self._data, self._at
        while True:
            if at == len(data):
                raise FormatError(f"cannot read {self._what}: {field}: data ends after {len(data)} bytes")
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                self._at = at
                return number
            if shift >= 64:
                raise FormatError(f"cannot read {self._what}: {field}: longer than 64 bits")

    def raw(self, field: str, length: int) -> bytes:
        """Read this number of bytes."""
        if length > self.left:
            raise FormatError(f"cannot read {self._what}: {field}: {length} bytes, but {self.left} bytes are left")
        start, self._at = self._at, self._at + length
        return self._data[start : self._at]

    def version(self) -> None:
        """Read a version; only 0 is supported."""
        version = self._number("version", ">h")
        if version != 0:
            raise FormatError(f"cannot read {self._what}: version {version} is not supported, only 0")
