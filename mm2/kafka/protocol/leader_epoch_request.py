"""The OffsetForLeaderEpoch request (KIP-320): where the records of a leader epoch end in a broker's log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.leader_epochs import EpochEnd
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
