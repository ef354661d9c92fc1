"""What a transactional producer asks its coordinator: InitProducerId, AddPartitionsToTxn, EndTxn.

    InitProducerId v3, v4 := transactional id compact str | timeout ms i32 | producer id i64 | epoch i16 | tags
    answer                := throttle ms i32 | error i16 | producer id i64 | epoch i16 | tags

From version 3 on the request says which producer it continues (KIP-360); aiokafka knows version 0 only. The other two
are aiokafka's, version 0: a broker takes their sender for one that repeats EndTxn with the same epoch.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from aiokafka.protocol.transaction import AddPartitionsToTxnRequest, EndTxnRequest

from mm2.core.names import TopicPartition
from mm2.kafka.errors import NotSupported
from mm2.kafka.raw_request import NO_TAGS, RawRequest, put_compact_string

_API_KEY = 22
_LOWEST, _HIGHEST = 3, 4  # 4 tells a producer that was replaced from one with a stale epoch; 5 and 6 add nothing here
_FIELDS = struct.Struct(">iqh")
_ANSWER = struct.Struct(">ihqh")


class Producer(NamedTuple):
    """A transactional producer as brokers know it: of two with the same id the higher ``epoch`` is the newer."""

    producer_id: int
    epoch: int


NOBODY = Producer(-1, -1)
"""Continue nobody: take the transactional id from whoever has it."""


class InitAnswer(NamedTuple):
    """``producer`` is `NOBODY` where ``error`` is not 0."""

    error: int
    producer: Producer


class InitProducerIdRequest:
    """``continues``: the producer that goes on with a new epoch; refused where another has taken the id from it."""

    API_KEY = _API_KEY

    def __init__(self, transactional_id: str, timeout_ms: int, continues: Producer) -> None:
        self._transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._continues = continues

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> RawRequest:
        """The request in the highest version both sides speak. Raises NotSupported."""
        lowest, highest = versions.get(_API_KEY, (0, -1))
        version = min(_HIGHEST, highest)
        if version < max(_LOWEST, lowest):
            raise NotSupported(
                f"the broker speaks InitProducerId {lowest} to {highest}, needed is one of {_LOWEST} to {_HIGHEST}: "
                "is it older than Kafka 2.5?"
            )
        body = bytearray()
        put_compact_string(body, self._transactional_id)
        body += _FIELDS.pack(self._timeout_ms, *self._continues)
        body.append(NO_TAGS)
        return RawRequest(_API_KEY, version, bytes(body), _decode, flexible=True)


def _decode(body: bytes, at: int, _version: int) -> InitAnswer:
    _, error, producer_id, epoch = _ANSWER.unpack_from(body, at)
    return InitAnswer(error, Producer(producer_id, epoch))


def add_partition(transactional_id: str, producer: Producer, partition: TopicPartition) -> AddPartitionsToTxnRequest:
    """Begin a transaction with this partition. The answer has an error per partition."""
    return AddPartitionsToTxnRequest(transactional_id, *producer, [(partition.topic, [partition.partition])])


def end(transactional_id: str, producer: Producer, *, commit: bool) -> EndTxnRequest:
    """Commit or abort. Repeated, it is answered CONCURRENT_TRANSACTIONS until every partition has its marker."""
    return EndTxnRequest(transactional_id, *producer, commit)
