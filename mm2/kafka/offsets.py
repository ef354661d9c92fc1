"""Where partitions begin and end."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Collection
from enum import IntEnum

from aiokafka.protocol.offset import OffsetRequest

from mm2.core.client_settings import IsolationLevel
from mm2.core.names import TopicPartition
from mm2.kafka.backoff import Backoff
from mm2.kafka.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterError
from mm2.kafka.retrying import API_TIMEOUT_MS

_CLIENT = -1  # replica id of an ordinary client


class OffsetSpec(IntEnum):
    """Which offset of a partition; any other value is a timestamp in epoch ms."""

    EARLIEST = -2
    LATEST = -1


async def list_offsets(
    cluster: Cluster,
    partitions: Collection[TopicPartition],
    spec: OffsetSpec | int,
    *,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    timeout_ms: int = API_TIMEOUT_MS,
) -> dict[TopicPartition, int | ClusterError]:
    """The offset per partition, or what kept it from being known within ``timeout_ms``.

    LATEST is the offset the next record gets: the high watermark, or under read_committed the last stable offset. For a
    timestamp with no record at or after it, -1. Asks each leader once for all of its partitions.
    """
    deadline = time.monotonic() + timeout_ms / 1000
    backoff = Backoff(cluster.settings.retry_backoff_ms, cluster.settings.retry_backoff_max_ms)
    found: dict[TopicPartition, int | ClusterError] = {}
    missing = set(partitions)
    while missing:
        found |= await _ask(cluster, missing, spec, isolation)
        pause = backoff.next()
        if time.monotonic() + pause > deadline:
            break
        missing = {one for one in missing if isinstance(error := found[one], ClusterError) and error.retriable}
        for one in missing:
            cluster.forget(one)
        if missing:
            await asyncio.sleep(pause)
    return found


async def _ask(
    cluster: Cluster, partitions: set[TopicPartition], spec: int, isolation: IsolationLevel
) -> dict[TopicPartition, int | ClusterError]:
    found: dict[TopicPartition, int | ClusterError] = {}
    by_leader: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    try:
        leaders = await cluster.leaders(partitions)
    except ClusterError as error:
        return dict.fromkeys(partitions, error)
    for one, leader in leaders.items():
        if isinstance(leader, ClusterError):
            found[one] = leader
        else:
            by_leader[leader.node_id].append(one)
    answers = await asyncio.gather(
        *(_ask_leader(cluster, node_id, led, spec, isolation) for node_id, led in by_leader.items())
    )
    for answer in answers:
        found |= answer
    return found


async def _ask_leader(
    cluster: Cluster, node_id: int, partitions: list[TopicPartition], spec: int, isolation: IsolationLevel
) -> dict[TopicPartition, int | ClusterError]:
    by_topic: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for one in partitions:
        by_topic[one.topic].append((one.partition, int(spec)))
    level = 1 if isolation is IsolationLevel.READ_COMMITTED else 0
    try:
        answer = await cluster.send(node_id, OffsetRequest(_CLIENT, level, list(by_topic.items())))
    except ClusterError as error:
        return dict.fromkeys(partitions, error)
    found: dict[TopicPartition, int | ClusterError] = {}
    for topic, rows in answer.topics:
        for partition, code, _, offset in rows:
            one = TopicPartition(topic, partition)
            found[one] = BrokerError(code, f"list offsets of {one}") if code else offset
    return found
