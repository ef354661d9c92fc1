"""Reading topics' configurations, and changing single ones of them.

Grammar of what DescribeConfigs v1 answers:

    throttle i32 | topics [error i16, words str?, type i8, name str,
                           configs [name str, value str?, read only bool, source i8, sensitive bool, synonyms []]]

An answer is read a few topics at a time: with aiokafka's structs 10,000 topics would cost ten seconds of CPU.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from aiokafka.protocol.admin import DescribeConfigsRequest_v1
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Boolean, Int8, Int16, Int32, Schema, String

from mm2.core.topic_configs import ConfigEntry, ConfigSource, DeleteConfig, SetConfig
from mm2.kafka.answer_reader import AnswerReader
from mm2.kafka.cluster import Cluster
from mm2.kafka.errors import BrokerError, NotSupported
from mm2.kafka.retrying import API_TIMEOUT_MS, retried
from mm2.kafka.undecoded_answer import UndecodedAnswer

_TOPIC = 2  # ConfigResource.Type.TOPIC
_SET, _DELETE = 0, 1  # AlterConfigOp.OpType

_TOPICS_A_REQUEST = 500  # about 1 MB of answer: a fifth of a second for the broker
_YIELD_EVERY = 100  # topics decoded between two turns of the event loop: about 5 ms
_CHANGES_A_REQUEST = 5_000  # a KRaft controller refuses more than 10,000 in one request

TopicConfigs = dict[str, ConfigEntry]


class _DescribeAnswer(UndecodedAnswer):
    API_KEY = 32
    API_VERSION = 1


class _Describe1(DescribeConfigsRequest_v1):  # type: ignore[misc]
    RESPONSE_TYPE = _DescribeAnswer


class _DescribeTopicConfigs(Request[_Describe1]):  # type: ignore[misc]
    API_KEY = 32

    def __init__(self, topics: Sequence[str]) -> None:
        self._topics = topics

    def build(self, request_struct_class: type[RequestStruct]) -> RequestStruct:
        return request_struct_class([(_TOPIC, name, None) for name in self._topics], False)


class _AlterAnswer(Response):  # type: ignore[misc]
    API_KEY = 44
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "resources",
            Array(
                ("error_code", Int16),
                ("error_message", String("utf-8")),
                ("resource_type", Int8),
                ("resource_name", String("utf-8")),
            ),
        ),
    )


class _Alter0(RequestStruct):  # type: ignore[misc]
    API_KEY = 44
    API_VERSION = 0
    RESPONSE_TYPE = _AlterAnswer
    SCHEMA = Schema(
        (
            "resources",
            Array(
                ("resource_type", Int8),
                ("resource_name", String("utf-8")),
                (
                    "configs",
                    Array(("name", String("utf-8")), ("operation", Int8), ("value", String("utf-8"))),
                ),
            ),
        ),
        ("validate_only", Boolean),
    )


class _AlterTopicConfigs(Request[_Alter0]):  # type: ignore[misc]
    API_KEY = 44

    def __init__(self, resources: list[Any]) -> None:
        self._resources = resources

    def build(self, request_struct_class: type[RequestStruct]) -> RequestStruct:
        return request_struct_class(self._resources, False)


async def describe_topic_configs(
    cluster: Cluster, topics: Collection[str], *, timeout_ms: int = API_TIMEOUT_MS
) -> dict[str, TopicConfigs | BrokerError]:
    """Every topic's effective configuration by name, or the broker's refusal for that topic.

    Raises ClusterError when the cluster cannot be asked at all within ``timeout_ms``.
    """
    names = sorted(topics)
    found: dict[str, TopicConfigs | BrokerError] = {}
    known: dict[bytes, ConfigEntry] = {}  # most entries are the same for all topics
    for start in range(0, len(names), _TOPICS_A_REQUEST):
        request = _DescribeTopicConfigs(names[start : start + _TOPICS_A_REQUEST])
        answer = await _ask(cluster, request, "describe topic configurations", "1.1", timeout_ms)
        reader = AnswerReader(answer.body)
        reader.int32()  # throttle time: the broker itself delays us
        for number in range(1, reader.length() + 1):
            name, configs = _topic(reader, known)
            found[name] = configs
            if number % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
    return found


async def alter_topic_configs(
    cluster: Cluster,
    changes: Mapping[str, Sequence[SetConfig | DeleteConfig]],
    *,
    timeout_ms: int = API_TIMEOUT_MS,
) -> dict[str, BrokerError | None]:
    """Change only these configs of these topics (KIP-339). Outcome per topic: None for done, else the refusal in the
    broker's words; a topic gets all of its changes or none.

    Raises NotSupported for brokers older than 2.3, or another ClusterError when the cluster cannot be asked at all
    within ``timeout_ms``.
    """
    outcome: dict[str, BrokerError | None] = {}
    for resources in _chunks(changes):
        answer = await _ask(cluster, _AlterTopicConfigs(resources), "change topic configurations", "2.3", timeout_ms)
        for code, words, _, name in answer.resources:
            outcome[name] = BrokerError(code, f"change configuration of topic {name}", words) if code else None
    return outcome


async def _ask(cluster: Cluster, request: Any, what: str, since: str, timeout_ms: int) -> Any:
    async def attempt() -> Any:
        return await cluster.send(await cluster.any_node(), request)

    try:
        return await retried(attempt, cluster.settings, timeout_ms=timeout_ms)
    except NotSupported as error:
        raise NotSupported(f"cluster {cluster.settings.alias}: {what}: its brokers are older than {since}") from error


def _topic(reader: AnswerReader, known: dict[bytes, ConfigEntry]) -> tuple[str, TopicConfigs | BrokerError]:
    code, words = reader.int16(), reader.string()
    reader.int8()  # the type: we asked for topics only
    name = reader.string() or ""
    entries = [_entry(reader, known) for _ in range(reader.length())]
    if code:
        return name, BrokerError(code, f"describe configuration of topic {name}", words)
    return name, {entry.name: entry for entry in entries}


def _entry(reader: AnswerReader, known: dict[bytes, ConfigEntry]) -> ConfigEntry:
    begin = reader.at
    reader.skip_string()
    reader.skip_string()
    reader.skip(3)
    raw = reader.since(begin)
    for _ in range(reader.length()):  # synonyms, not asked for
        reader.skip_string()
        reader.skip_string()
        reader.skip(1)
    if raw not in known:
        fields = AnswerReader(raw)
        known[raw] = ConfigEntry(
            name=fields.string() or "",
            value=fields.string(),
            read_only=fields.boolean(),
            source=ConfigSource(fields.int8()),
            sensitive=fields.boolean(),
        )
    return known[raw]


def _chunks(changes: Mapping[str, Sequence[SetConfig | DeleteConfig]]) -> Iterator[list[Any]]:
    chunk: list[Any] = []
    size = 0
    for name in sorted(changes):
        rows = [_row(change) for change in changes[name]]
        if chunk and size + len(rows) > _CHANGES_A_REQUEST:
            yield chunk
            chunk, size = [], 0
        chunk.append((_TOPIC, name, rows))
        size += len(rows)
    if chunk:
        yield chunk


def _row(change: SetConfig | DeleteConfig) -> tuple[str, int, str | None]:
    match change:
        case SetConfig(name=name, value=value):
            return name, _SET, value
        case DeleteConfig(name=name):
            return name, _DELETE, None
