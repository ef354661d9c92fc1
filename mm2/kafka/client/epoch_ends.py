"""The ends of leader epochs in the leaders' logs and the OffsetForLeaderEpoch request (KIP-320)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from mm2.core.access.rights import on_topic
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.leader_epochs import EpochEnd, EpochStarts
from mm2.core.topics.acls import Operation
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterError
from mm2.kafka.protocol.api_request import ApiRequest
from mm2.kafka.protocol.raw_request import by_topic
from mm2.kafka.protocol.schema import INT16, INT32, INT64, STRING

_CONSUMER = -1  # as replica id


class WantedEpoch(NamedTuple):
    """The ``epoch`` asked for; ``leader_epoch`` is the leader's according to metadata, -1: not checked."""

    epoch: int
    leader_epoch: int


class OffsetForLeaderEpochRequest(
    ApiRequest,
    api_key=23,
    versions=(3, 4),  # earlier ones need ClusterAction on the cluster
    first_flexible=4,
    kafka="2.3",
    request={
        "replica_id": INT32,
        "topics": [
            {
                "topic": STRING,
                "partitions": [{"partition": INT32, "leader_epoch": INT32, "epoch": INT32}],
            }
        ],
    },
    response={
        "_throttle_ms": INT32,
        "topics": [
            {
                "topic": STRING,
                "partitions": [{"error": INT16, "partition": INT32, "epoch": INT32, "end_offset": INT64}],
            }
        ],
    },
):
    """Ask the leader of these partitions. The response maps each to (error code, `EpochEnd`).

    Both numbers of the `EpochEnd` are -1 if the leader knows neither the epoch nor a later one.
    """

    def __init__(self, partitions: Mapping[TopicPartition, WantedEpoch]) -> None:
        topics = by_topic(partitions.items())
        super().__init__(
            _CONSUMER,
            [
                (topic, [(number, wanted.leader_epoch, wanted.epoch) for number, wanted in rows])
                for topic, rows in topics.items()
            ],
        )

    def parse(self, *fields: Any) -> dict[TopicPartition, tuple[int, EpochEnd]]:
        (topics,) = fields
        return {
            TopicPartition(topic, partition): (error, EpochEnd(epoch, end_offset))
            for topic, rows in topics
            for error, partition, epoch, end_offset in rows
        }


async def epoch_ends(
    cluster: Cluster, partitions: Mapping[TopicPartition, EpochStarts]
) -> dict[TopicPartition, EpochEnd | ClusterError | None]:
    """Return where the last of each partition's epochs that its leader knows ends; None: it knows none of them.

    A leader does not know an epoch if all of its records have earlier ones. Each leader gets one request for all of its
    partitions, and another one for those whose last epoch it does not know. There are no retries after an error.
    """
    found: dict[TopicPartition, EpochEnd | ClusterError | None] = {}
    left = dict(partitions)
    while left:
        for one in [one for one, epochs in left.items() if not epochs]:
            del left[one]
            found[one] = None
        for one, answer in (await _ask(cluster, {one: epochs[-1].epoch for one, epochs in left.items()})).items():
            if isinstance(answer, EpochEnd) and answer.epoch < 0:
                left[one] = left[one][:-1]
            else:
                del left[one]
                found[one] = answer
    return found


async def _ask(cluster: Cluster, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd | ClusterError]:
    by_leader, unknown = await cluster.by_leader(list(epochs))
    found: dict[TopicPartition, EpochEnd | ClusterError] = dict(unknown)
    answers = await asyncio.gather(
        *(_ask_leader(cluster, node_id, {one: epochs[one] for one in led}) for node_id, led in by_leader.items())
    )
    for answer in answers:
        found |= answer
    return found


async def _ask_leader(
    cluster: Cluster, node_id: int, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, EpochEnd | ClusterError]:
    wanted = {}
    for one, epoch in epochs.items():
        leader = cluster.cached_leader(one)
        wanted[one] = WantedEpoch(epoch, leader.epoch if leader is not None else -1)
    try:
        answer = await cluster.send(node_id, OffsetForLeaderEpochRequest(wanted))
    except ClusterError as error:
        return dict.fromkeys(epochs, error)
    found: dict[TopicPartition, EpochEnd | ClusterError] = {}
    for one in epochs:
        code, end = answer.get(one, (-1, EpochEnd(-1, -1)))
        right = on_topic(Operation.DESCRIBE, one.topic, cluster.settings.alias)
        found[one] = BrokerError(code, f"look up the leader epoch of {one}", right=right) if code else end
    return found
