"""Offsets of partitions: earliest, latest, or by timestamp."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from enum import IntEnum

from aiokafka.protocol.offset import OffsetRequest

from mm2.core.access.rights import on_topic
from mm2.core.naming.names import TopicPartition
from mm2.core.settings.client import IsolationLevel
from mm2.core.topics.acls import Operation
from mm2.kafka.backoff import Backoff
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterError
from mm2.kafka.protocol.raw_request import by_topic
from mm2.kafka.retrying import API_TIMEOUT_MS

_CLIENT = -1  # replica id of an ordinary client


class OffsetSpec(IntEnum):
    """The offset to list; any other value is a timestamp in epoch ms."""

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
    """Return the offset of each partition, or the error that persisted for ``timeout_ms``.

    LATEST is the high watermark, or under read_committed the last stable offset. For a timestamp with no record at or
    after it the offset is -1. Each leader gets one request for all of its partitions.
    """
    deadline = time.monotonic() + timeout_ms / 1000
    backoff = Backoff.for_retries(cluster.settings)
    found: dict[TopicPartition, int | ClusterError] = {}
    missing = set(partitions)
    while missing:
        found |= await _ask(cluster, missing, spec, isolation)
        missing = {one for one in missing if isinstance(error := found[one], ClusterError) and error.retriable}
        for one in missing:
            cluster.forget(one)  # before giving up, too: the caller's next attempt needs the new leader
        pause = backoff.next()
        if time.monotonic() + pause > deadline:
            break
        if missing:
            await asyncio.sleep(pause)
    return found


async def _ask(
    cluster: Cluster, partitions: set[TopicPartition], spec: int, isolation: IsolationLevel
) -> dict[TopicPartition, int | ClusterError]:
    by_leader, unknown = await cluster.by_leader(partitions)
    found: dict[TopicPartition, int | ClusterError] = dict(unknown)
    answers = await asyncio.gather(
        *(_ask_leader(cluster, node_id, led, spec, isolation) for node_id, led in by_leader.items())
    )
    for answer in answers:
        found |= answer
    return found


async def _ask_leader(
    cluster: Cluster, node_id: int, partitions: list[TopicPartition], spec: int, isolation: IsolationLevel
) -> dict[TopicPartition, int | ClusterError]:
    topics = by_topic((one, int(spec)) for one in partitions)
    level = 1 if isolation is IsolationLevel.READ_COMMITTED else 0
    try:
        answer = await cluster.send(node_id, OffsetRequest(_CLIENT, level, list(topics.items())))
    except ClusterError as error:
        return dict.fromkeys(partitions, error)
    found: dict[TopicPartition, int | ClusterError] = {}
    for topic, rows in answer.topics:
        for partition, code, _, offset in rows:
            one = TopicPartition(topic, partition)
            right = on_topic(Operation.DESCRIBE, topic, cluster.settings.alias)
            found[one] = BrokerError(code, f"list offsets of {one}", right=right) if code else offset
    return found
