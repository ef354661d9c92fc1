"""The Produce request with batches as bytes, its response, and InitProducerId.

Written by hand rather than as tables of fields (`schema`), for speed: the pieces of a batch are joined only once, and a
response is decoded in half the time. Grammar (v3 to v8; `n+` marks what a version added):

    request  := transactional id str? | acks i16 | timeout ms i32 | [topic str, [partition i32, batch bytes]]
    response := [topic str, [partition i32, error i16, base offset i64, append time i64, 5+ log start i64,
                             8+ record errors [index i32, message str?], 8+ message str?]]
                | throttle ms i32

A request contains one batch per partition.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from aiokafka.protocol.transaction import InitProducerIdRequest

from mm2.core.access.rights import on_cluster, on_topic
from mm2.core.naming.names import TopicPartition
from mm2.core.topics.acls import Operation
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, check
from mm2.kafka.protocol.raw_request import RawRequest, by_topic, version_for

_API_KEY = 0
_VERSIONS = range(3, 9)  # 3 brings RecordBatch v2; from 9 on headers are flexible

_i16 = struct.Struct(">h")
_i32 = struct.Struct(">i")
_ACKS_TIMEOUT = struct.Struct(">hi")
_PARTITION = struct.Struct(">ii")
_RESULT_3 = struct.Struct(">ihqq")
_RESULT_5 = struct.Struct(">ihqqq")
_NULL_STRING = _i16.pack(-1)

Pieces = Sequence[bytes | memoryview]


class ProducedPartition(NamedTuple):
    """One partition's result. ``base_offset`` is -1 on errors and if the broker does not report it.

    ``record_errors`` are (index in the batch, message); ``message`` is the broker's on the whole batch.
    """

    topic: str
    partition: int
    error: int
    base_offset: int
    record_errors: Sequence[tuple[int, str | None]]
    message: str | None

    def broker_error(self, cluster: str) -> BrokerError | None:
        """Return the error, if any, with the message about a record rather than the one about the batch.

        ``cluster`` is the alias that it names.
        """
        if not self.error:
            return None
        message = next((text for _, text in self.record_errors if text), None) or self.message
        right = on_topic(Operation.WRITE, self.topic, cluster)
        return BrokerError(self.error, f"write to {TopicPartition(self.topic, self.partition)}", message, right)


class ProduceAnswer(NamedTuple):
    """The results in the order of the request's partitions by topic."""

    partitions: list[ProducedPartition]
    throttle_ms: int


class ProduceRequest:
    """One batch, given in pieces, for each partition. ``acks`` 0: the broker sends no answer.

    ``transactional_id`` belongs to the batches if they are transactional.
    """

    API_KEY = _API_KEY

    def __init__(
        self,
        *,
        acks: int,
        timeout_ms: int,
        batches: Mapping[TopicPartition, Pieces],
        transactional_id: str | None = None,
    ) -> None:
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._batches = batches
        self._transactional_id = transactional_id

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> RawRequest:
        """Encode the request in the highest version that both sides support. Raises NotSupported."""
        version = version_for(versions, _API_KEY, "Produce", _VERSIONS)
        return RawRequest(_API_KEY, version, self._encode(), _decode)

    def _encode(self) -> bytes:
        topics = by_topic(self._batches.items())
        parts: list[bytes | memoryview] = [
            _nullable(self._transactional_id),
            _ACKS_TIMEOUT.pack(self._acks, self._timeout_ms),
            _i32.pack(len(topics)),
        ]
        for topic, partitions in topics.items():
            raw = topic.encode()
            parts += (_i16.pack(len(raw)), raw, _i32.pack(len(partitions)))
            for partition, pieces in partitions:
                parts.append(_PARTITION.pack(partition, sum(map(len, pieces))))
                parts += pieces
        return b"".join(parts)


def _nullable(text: str | None) -> bytes:
    if text is None:
        return _NULL_STRING
    raw = text.encode()
    return _i16.pack(len(raw)) + raw


def _decode(body: bytes, at: int, version: int) -> ProduceAnswer:
    result = _RESULT_5 if version >= 5 else _RESULT_3
    partitions: list[ProducedPartition] = []
    (topics,) = _i32.unpack_from(body, at)
    at += 4
    for _ in range(topics):
        topic, at = _string(body, at)
        (count,) = _i32.unpack_from(body, at)
        at += 4
        for _ in range(count):
            partition, error, base_offset, *_ = result.unpack_from(body, at)
            at += result.size
            record_errors: list[tuple[int, str | None]] = []
            message = None
            if version >= 8:
                (errors,) = _i32.unpack_from(body, at)
                at += 4
                for _ in range(errors):
                    (index,) = _i32.unpack_from(body, at)
                    text, at = _string(body, at + 4)
                    record_errors.append((index, text))
                message, at = _string(body, at)
            partitions.append(ProducedPartition(topic or "", partition, error, base_offset, record_errors, message))
    (throttle_ms,) = _i32.unpack_from(body, at)
    return ProduceAnswer(partitions, throttle_ms)


def _string(body: bytes, at: int) -> tuple[str | None, int]:
    (length,) = _i16.unpack_from(body, at)
    at += 2
    if length < 0:
        return None, at
    return body[at : at + length].decode(), at + length


_NO_TRANSACTION_TIMEOUT = 2**31 - 1  # ignored by brokers without transactions


async def init_producer_id(cluster: Cluster, *, purpose: str = "produce") -> tuple[int, int]:
    """Request a new (producer id, epoch) for idempotent writes without transactions. Raises ClusterError."""
    answer = await cluster.send(
        await cluster.any_node(), InitProducerIdRequest(None, _NO_TRANSACTION_TIMEOUT), purpose=purpose
    )
    right = on_cluster(Operation.IDEMPOTENT_WRITE, cluster.settings.alias)
    check(answer.error_code, "get a producer id", right=right)
    return int(answer.producer_id), int(answer.producer_epoch)
