"""Requests that create topics and add partitions. (`Cluster.metadata` lists and describes them.)"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiokafka.protocol.admin import CreatePartitionsRequest, CreateTopicsRequest

from mm2.core.access.rights import on_topic
from mm2.core.topics.acls import Operation
from mm2.kafka.chunks import chunks
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.retrying import API_TIMEOUT_MS, retried

_TOPICS_A_REQUEST = 100
_PARTITIONS_A_REQUEST = 5_000  # a KRaft controller rejects more than 10,000 changes in one request
_BROKER_WAITS_MS = 20_000  # how long the broker may wait for the topics to appear; below request.timeout.ms


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create. ``replication_factor`` -1: the target's default.replication.factor (KIP-464, brokers 2.4+)."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)


async def create_topics(
    cluster: Cluster, topics: Sequence[NewTopic], *, timeout_ms: int = API_TIMEOUT_MS
) -> dict[str, BrokerError | None]:
    """Create topics. Return None or the broker's error for each topic.

    The error of a topic that exists already is TOPIC_ALREADY_EXISTS; its partitions and configs may differ. Raises
    ClusterError if the controller does not answer within ``timeout_ms``.
    """
    outcome: dict[str, BrokerError | None] = {}
    for chunk in _requests(topics):
        rows: list[Any] = [
            (new.name, new.partitions, new.replication_factor, [], list(new.configs.items())) for new in chunk
        ]
        request = CreateTopicsRequest(rows, _BROKER_WAITS_MS, False)
        outcome |= await _ask_controller(cluster, request, "create topic", Operation.CREATE, timeout_ms)
    return outcome


async def create_partitions(
    cluster: Cluster, totals: Mapping[str, int], *, timeout_ms: int = API_TIMEOUT_MS
) -> dict[str, BrokerError | None]:
    """Grow topics to ``totals`` partitions. Return None or the broker's error for each topic."""
    outcome: dict[str, BrokerError | None] = {}
    for names in chunks(sorted(totals), _TOPICS_A_REQUEST):
        rows: list[Any] = [(name, (totals[name], None)) for name in names]
        request = CreatePartitionsRequest(rows, _BROKER_WAITS_MS, False)
        outcome |= await _ask_controller(cluster, request, "add partitions to topic", Operation.ALTER, timeout_ms)
    return outcome


async def _ask_controller(
    cluster: Cluster, request: Any, what: str, operation: Operation, timeout_ms: int
) -> dict[str, BrokerError | None]:
    async def attempt() -> dict[str, BrokerError | None]:
        answer = await cluster.send(await cluster.controller(), request)
        outcome: dict[str, BrokerError | None] = {}
        for name, code, *words in answer.topic_errors:
            right = on_topic(operation, name, cluster.settings.alias)
            error = BrokerError(code, f"{what} {name}", words[0] if words else None, right) if code else None
            if error is not None and code == ErrorCode.NOT_CONTROLLER:
                raise error
            outcome[name] = error
        return outcome

    return await retried(attempt, cluster.settings, timeout_ms=timeout_ms)


def _requests(topics: Sequence[NewTopic]) -> Iterator[list[NewTopic]]:
    for some in chunks(topics, _TOPICS_A_REQUEST):
        yield from chunks(some, _PARTITIONS_A_REQUEST, lambda topic: topic.partitions)
