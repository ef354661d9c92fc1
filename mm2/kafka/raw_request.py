"""Requests and answers that are bytes already, in the shape aiokafka's connection sends and receives."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from io import BytesIO
from typing import Any, NamedTuple, TypeVar

from mm2.core.names import TopicPartition
from mm2.kafka.errors import NotSupported

_HEADER = struct.Struct(">hhi")
_CORRELATION_ID = struct.Struct(">i")
_LENGTH = struct.Struct(">h")

Value = TypeVar("Value")


class _Encoded(NamedTuple):
    raw: bytes

    def encode(self) -> bytes:
        return self.raw


class _AnswerHeader(NamedTuple):
    correlation_id: int


class _Decoder(NamedTuple):
    """Stands where aiokafka expects the answer's class."""

    read: Callable[[bytes, int, int], Any]
    version: int

    def decode(self, data: BytesIO) -> Any:
        return self.read(data.getvalue(), data.tell(), self.version)


class RawRequest:
    """One encoded request of a version without flexible headers.

    ``read`` turns (all bytes of the answer, where its body begins, version) into what the sender gets back.
    """

    def __init__(self, api_key: int, version: int, body: bytes, read: Callable[[bytes, int, int], Any]) -> None:
        self.API_KEY = api_key
        self.API_VERSION = version
        self.RESPONSE_TYPE = _Decoder(read, version)
        self._body = body

    def build_request_header(self, correlation_id: int, client_id: str) -> _Encoded:
        header = bytearray(_HEADER.pack(self.API_KEY, self.API_VERSION, correlation_id))
        put_string(header, client_id)
        return _Encoded(bytes(header))

    def parse_response_header(self, data: BytesIO) -> _AnswerHeader:
        return _AnswerHeader(*_CORRELATION_ID.unpack(data.read(_CORRELATION_ID.size)))

    def encode(self) -> bytes:
        return self._body

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


def by_topic(partitions: Iterable[tuple[TopicPartition, Value]]) -> dict[str, list[tuple[int, Value]]]:
    """Grouped as requests list them, each topic where it was named first."""
    topics: dict[str, list[tuple[int, Value]]] = {}
    for one, value in partitions:
        topics.setdefault(one.topic, []).append((one.partition, value))
    return topics
