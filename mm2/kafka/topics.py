"""Creating topics and adding partitions. (Listing and describing is `Cluster.metadata`.)"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiokafka.protocol.admin import CreatePartitionsRequest, CreateTopicsRequest

from mm2.kafka.cluster import Cluster
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import BrokerError
from mm2.kafka.retrying import API_TIMEOUT_MS, retried

_TOPICS_A_REQUEST = 100
_PARTITIONS_A_REQUEST = 5_000  # a KRaft controller refuses more than 10,000 changes in one request
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
    """Outcome per topic: None for created, else the refusal in the broker's words.

    A topic that is there already has the code TOPIC_ALREADY_EXISTS; its partitions and configs may differ. Raises
    ClusterError when the cluster cannot be asked at all within ``timeout_ms``.
    """
    outcome: dict[str, BrokerError | None] = {}
    for chunk in _chunks(topics):
        rows: list[Any] = [
            (new.name, new.partitions, new.replication_factor, [], list(new.configs.items())) for new in chunk
        ]
        request = CreateTopicsRequest(rows, _BROKER_WAITS_MS, False)
        outcome |= await _ask_controller(cluster, request, "create topic", timeout_ms)
    return outcome


async def create_partitions(
    cluster: Cluster, totals: Mapping[str, int], *, timeout_ms: int = API_TIMEOUT_MS
) -> dict[str, BrokerError | None]:
    """Grow topics to ``totals`` partitions. Outcome per topic: None for done, else the broker's refusal."""
    outcome: dict[str, BrokerError | None] = {}
    names = sorted(totals)
    for start in range(0, len(names), _TOPICS_A_REQUEST):
        rows: list[Any] = [(name, (totals[name], None)) for name in names[start : start + _TOPICS_A_REQUEST]]
        request = CreatePartitionsRequest(rows, _BROKER_WAITS_MS, False)
        outcome |= await _ask_controller(cluster, request, "add partitions to topic", timeout_ms)
    return outcome


async def _ask_controller(cluster: Cluster, request: Any, what: str, timeout_ms: int) -> dict[str, BrokerError | None]:
    async def attempt() -> dict[str, BrokerError | None]:
        answer = await cluster.send(await cluster.controller(), request)
        outcome: dict[str, BrokerError | None] = {}
        for name, code, *words in answer.topic_errors:
            error = BrokerError(code, f"{what} {name}", words[0] if words else None) if code else None
            if error is not None and code == ErrorCode.NOT_CONTROLLER:
                raise error
            outcome[name] = error
        return outcome

    return await retried(attempt, cluster.settings, timeout_ms=timeout_ms)


def _chunks(topics: Sequence[NewTopic]) -> Iterator[list[NewTopic]]:
    chunk: list[NewTopic] = []
    partitions = 0
    for topic in topics:
        if chunk and (len(chunk) == _TOPICS_A_REQUEST or partitions + topic.partitions > _PARTITIONS_A_REQUEST):
            yield chunk
            chunk, partitions = [], 0
        chunk.append(topic)
        partitions += topic.partitions
    if chunk:
        yield chunk
