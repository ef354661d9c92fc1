"""Encoded requests with the interface of aiokafka's, and the decoding of their responses."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from mm2.core.naming.names import TopicPartition
from mm2.kafka.errors import NotSupported
from mm2.kafka.protocol.schema import NO_TAGS, skip_tags

_HEADER = struct.Struct(">hhih")
_CORRELATION_ID = struct.Struct(">i")

Value = TypeVar("Value")


class _Encoded(NamedTuple):
    raw: bytes

    def encode(self) -> bytes:
        return self.raw


class DeferredResponse(NamedTuple):
    """A large response. ``decode`` takes so long that it should not run in the event loop's thread."""

    decode: Callable[[], Any]


class RawRequest:
    """One encoded request. ``flexible``: its version has a tag section in both headers (KIP-482).

    ``read`` turns (all bytes of the response, position of its body, version) into the result for the sender.
    ``client_id`` replaces that of the connection if it is set.
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
        self.client_id: str | None = None

    def build_request_header(self, correlation_id: int, client_id: str) -> _Encoded:
        client = (self.client_id or client_id).encode()
        header = _HEADER.pack(self.API_KEY, self.API_VERSION, correlation_id, len(client)) + client
        return _Encoded(header + bytes([NO_TAGS]) if self._flexible else header)

    def encode(self) -> bytes:
        return self._body

    def answers(self, data: bytes) -> int:
        """Return the correlation id of a response, given with its header."""
        (correlation_id,) = _CORRELATION_ID.unpack_from(data)
        return int(correlation_id)

    def decode(self, data: bytes) -> Any:
        """Decode a response, given with its header, with ``read``."""
        at = _CORRELATION_ID.size
        return self._read(data, skip_tags(data, at) if self._flexible else at, self.API_VERSION)

    def __repr__(self) -> str:
        return f"request {self.API_KEY} v{self.API_VERSION} of {len(self._body)} bytes"


def version_for(
    versions: Mapping[int, tuple[int, int]], api_key: int, name: str, known: Sequence[int], *, kafka: str = "0.11"
) -> int:
    """Return the highest of the ``known`` versions, given in ascending order, that the broker supports.

    Raises NotSupported; ``kafka`` is the release that introduced the first of them.
    """
    lowest, highest = versions.get(api_key, (0, -1))
    for version in reversed(known):
        if lowest <= version <= highest:
            return version
    offered = f"{name} versions {lowest} to {highest}" if highest >= 0 else f"no version of {name}"
    needed = f"{known[0]} to {known[-1]}" if len(known) > 1 else f"{known[0]}"
    raise NotSupported(
        f"the broker supports {offered}, but this client needs {needed}: is the broker older than Kafka {kafka}?"
    )


def by_topic(partitions: Iterable[tuple[TopicPartition, Value]]) -> dict[str, list[tuple[int, Value]]]:
    """Group by topic, as requests do, with topics in the order of their first partition."""
    topics: dict[str, list[tuple[int, Value]]] = {}
    for one, value in partitions:
        topics.setdefault(one.topic, []).append((one.partition, value))
    return topics
