"""Requests that are bytes already, in the shape of aiokafka's, and their answers read in place."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from mm2.core.names import TopicPartition
from mm2.kafka.answer_reader import AnswerReader
from mm2.kafka.errors import NotSupported

_HEADER = struct.Struct(">hhi")
_CORRELATION_ID = struct.Struct(">i")
_LENGTH = struct.Struct(">h")

NO_TAGS = 0  # an empty tag section

Value = TypeVar("Value")


class _Encoded(NamedTuple):
    raw: bytes

    def encode(self) -> bytes:
        return self.raw


class RawRequest:
    """One encoded request. ``flexible``: its version has a tag section in both headers (KIP-482).

    ``read`` turns (all bytes of the answer, where its body begins, version) into what the sender gets back.
    """

    def __init__(
        self,
        api_key: int,
        version: int,
        body: bytes,
        read: Callable[[bytes, int, int], Any],
        *,
        flexible: bool = False,
    ) -> None:
        self.API_KEY = api_key
        self.API_VERSION = version
        self._read = read
        self._body = body
        self._flexible = flexible

    def build_request_header(self, correlation_id: int, client_id: str) -> _Encoded:
        header = bytearray(_HEADER.pack(self.API_KEY, self.API_VERSION, correlation_id))
        put_string(header, client_id)
        if self._flexible:
            header.append(NO_TAGS)
        return _Encoded(bytes(header))

    def encode(self) -> bytes:
        return self._body

    def answers(self, data: bytes) -> int:
        """The correlation id of the request that this answer, all its bytes, is for."""
        (correlation_id,) = _CORRELATION_ID.unpack_from(data)
        return int(correlation_id)

    def decode(self, data: bytes) -> Any:
        """What ``read`` makes of an answer, given with its header."""
        at = _CORRELATION_ID.size
        if self._flexible:
            if data[at] == NO_TAGS:
                at += 1
            else:
                reader = AnswerReader(data, at, flexible=True)
                reader.tags()
                at = reader.at
        return self._read(data, at, self.API_VERSION)

    def __repr__(self) -> str:
        return f"request {self.API_KEY} v{self.API_VERSION} of {len(self._body)} bytes"


def version_for(versions: Mapping[int, tuple[int, int]], api_key: int, name: str, lowest: int, highest: int) -> int:
    """The highest version both sides speak. Raises NotSupported."""
    theirs_lowest, theirs_highest = versions.get(api_key, (0, -1))
    version = min(highest, theirs_highest)
    if version < max(lowest, theirs_lowest):
        raise NotSupported(
            f"the broker speaks {name} {theirs_lowest} to {theirs_highest}, needed is one of {lowest} to {highest}: "
            "is it older than Kafka 0.11?"
        )
    return version


def put_string(out: bytearray, text: str) -> None:
    """Append an int16 length and UTF-8."""
    raw = text.encode()
    out += _LENGTH.pack(len(raw))
    out += raw


def put_varint(out: bytearray, value: int) -> None:
    """Append an unsigned integer, seven bits a byte, the lowest first."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def put_compact_string(out: bytearray, text: str) -> None:
    """Append a string as flexible versions write it."""
    raw = text.encode()
    put_varint(out, len(raw) + 1)
    out += raw


def put_compact_strings(out: bytearray, texts: Collection[str]) -> None:
    """Append an array of strings as flexible versions write it."""
    put_varint(out, len(texts) + 1)
    for text in texts:
        put_compact_string(out, text)


def by_topic(partitions: Iterable[tuple[TopicPartition, Value]]) -> dict[str, list[tuple[int, Value]]]:
    """Grouped as requests list them, each topic where it was named first."""
    topics: dict[str, list[tuple[int, Value]]] = {}
    for one, value in partitions:
        topics.setdefault(one.topic, []).append((one.partition, value))
    return topics
