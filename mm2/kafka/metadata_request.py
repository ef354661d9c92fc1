"""The Metadata request, which never creates a topic, and its answer.

Grammar of the answer (Metadata v5, v7, v12; `c` marks what only v12 has: compact lengths and tag sections):

    throttle i32 | brokers [node i32, host str, port i32, rack str?, c tags] | cluster id str? | controller i32
    | topics [error i16, name str?, c topic id uuid, internal bool,
              partitions [error i16, index i32, leader i32, v7+ leader epoch i32,
                          replicas [i32], isr [i32], offline [i32], c tags],
              c authorized operations i32, c tags]
    | c tags

aiokafka's own structs end at v5, have no topic ids and decode an answer in one go: with 10,000 topics that stops the
event loop for seconds. Here the answer is kept as bytes and read a few topics at a time.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka.protocol.api import Request, RequestStruct
from aiokafka.protocol.types import Array, Boolean, CompactArray, CompactString, Schema, String, TaggedFields

from mm2.kafka.answer_reader import AnswerReader
from mm2.kafka.metadata import Broker, Metadata, PartitionInfo, TopicInfo
from mm2.kafka.protocol_types import Uuid
from mm2.kafka.undecoded_answer import UndecodedAnswer

_API_KEY = 3
_FIRST_FLEXIBLE = 9
_YIELD_EVERY = 2_000  # partitions decoded between two turns of the event loop: about 10 ms


class _Answer5(UndecodedAnswer):
    API_KEY = _API_KEY
    API_VERSION = 5


class _Answer7(UndecodedAnswer):
    API_KEY = _API_KEY
    API_VERSION = 7


class _Answer12(UndecodedAnswer):
    API_KEY = _API_KEY
    API_VERSION = 12


class _Request5(RequestStruct):  # type: ignore[misc]
    API_KEY = _API_KEY
    API_VERSION = 5
    RESPONSE_TYPE = _Answer5
    SCHEMA = Schema(("topics", Array(String("utf-8"))), ("allow_auto_topic_creation", Boolean))


class _Request7(RequestStruct):  # type: ignore[misc]
    API_KEY = _API_KEY
    API_VERSION = 7
    RESPONSE_TYPE = _Answer7
    SCHEMA = _Request5.SCHEMA


class _Request12(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION = True
    API_KEY = _API_KEY
    API_VERSION = 12
    RESPONSE_TYPE = _Answer12
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", Uuid), ("name", CompactString("utf-8")), ("tags", TaggedFields))),
        ("allow_auto_topic_creation", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class MetadataRequest(Request[_Request5 | _Request7 | _Request12]):  # type: ignore[misc]
    """``topics`` None asks for all topics, an empty list for brokers only."""

    API_KEY = _API_KEY

    def __init__(self, topics: list[str] | None) -> None:
        self._topics = topics

    def build(self, request_struct_class: type[RequestStruct]) -> RequestStruct:
        if request_struct_class.API_VERSION < _FIRST_FLEXIBLE:
            return request_struct_class(self._topics, False)
        topics: list[Any] | None = None if self._topics is None else [(None, name, {}) for name in self._topics]
        return request_struct_class(topics, False, False, {})


async def decoded(answer: Any) -> Metadata:
    """Read an answer, letting the event loop turn in between."""
    version: int = answer.API_VERSION
    reader = AnswerReader(answer.body, flexible=version >= _FIRST_FLEXIBLE)
    reader.int32()  # throttle time: the broker itself delays us
    brokers = [_broker(reader) for _ in range(reader.length())]
    cluster_id = reader.string()
    controller = reader.int32()
    topics: dict[str, TopicInfo] = {}
    since_yield = 0
    for _ in range(reader.length()):
        topic = _topic(reader, version)
        topics[topic.name] = topic
        since_yield += len(topic.partitions) + 1
        if since_yield >= _YIELD_EVERY:
            since_yield = 0
            await asyncio.sleep(0)
    return Metadata(
        cluster_id=cluster_id,
        controller=controller if controller >= 0 else None,
        brokers={broker.node_id: broker for broker in brokers},
        topics=topics,
    )


def _broker(reader: AnswerReader) -> Broker:
    broker = Broker(node_id=reader.int32(), host=reader.string() or "", port=reader.int32(), rack=reader.string())
    reader.tags()
    return broker


def _topic(reader: AnswerReader, version: int) -> TopicInfo:
    flexible = version >= _FIRST_FLEXIBLE
    error = reader.int16()
    name = reader.string() or ""
    topic_id = reader.uuid() if flexible else None
    is_internal = reader.boolean()
    partitions = sorted((_partition(reader, version) for _ in range(reader.length())), key=lambda p: p.partition)
    if flexible:
        reader.int32()  # authorized operations, not asked for
    reader.tags()
    return TopicInfo(name=name, error=error, topic_id=topic_id, is_internal=is_internal, partitions=tuple(partitions))


def _partition(reader: AnswerReader, version: int) -> PartitionInfo:
    error = reader.int16()
    partition = reader.int32()
    leader = reader.int32()
    leader_epoch = reader.int32() if version >= 7 else -1
    replicas = reader.int32s()
    in_sync = reader.int32s()
    reader.int32s()  # offline replicas
    reader.tags()
    return PartitionInfo(
        partition=partition, leader=leader, leader_epoch=leader_epoch, replicas=replicas, in_sync=in_sync, error=error
    )
