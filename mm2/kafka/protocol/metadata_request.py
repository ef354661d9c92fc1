"""The Metadata request, which never creates a topic. aiokafka's ends at version 5, without topic ids."""

from __future__ import annotations

from typing import Any

from mm2.kafka.client.metadata import Broker, Metadata, PartitionInfo, TopicInfo
from mm2.kafka.protocol.api_request import ApiRequest
from mm2.kafka.protocol.schema import BOOL, INT16, INT32, STRING, UUID, Since


class MetadataRequest(
    ApiRequest,
    api_key=3,
    versions=(5, 7, 12),
    first_flexible=9,
    bulk=True,
    request={
        "topics": [{"topic_id": Since(10, UUID), "name": STRING}],
        "allow_auto_topic_creation": BOOL,
        "include_topic_authorized_operations": Since(8, BOOL),
    },
    response={
        "_throttle_ms": INT32,
        "brokers": [{"node_id": INT32, "host": STRING, "port": INT32, "rack": STRING}],
        "cluster_id": STRING,
        "controller": INT32,
        "topics": [
            {
                "error": INT16,
                "name": STRING,
                "topic_id": Since(10, UUID),
                "is_internal": BOOL,
                "partitions": [
                    {
                        "error": INT16,
                        "partition": INT32,
                        "leader": INT32,
                        "leader_epoch": Since(7, INT32),
                        "replicas": [INT32],
                        "in_sync": [INT32],
                        "_offline_replicas": [INT32],
                    }
                ],
                "_authorized_operations": Since(8, INT32),
            }
        ],
    },
):
    """Request metadata: of all topics (``topics`` None), or of brokers only (empty). The response is a `Metadata`."""

    def __init__(self, topics: list[str] | None) -> None:
        super().__init__(None if topics is None else [(None, name) for name in topics], False, False)

    def parse(self, *fields: Any) -> Metadata:
        brokers, cluster_id, controller, topics = fields
        return Metadata(
            cluster_id=cluster_id,
            controller=controller if controller >= 0 else None,
            brokers={
                node_id: Broker(node_id=node_id, host=host or "", port=port, rack=rack)
                for node_id, host, port, rack in brokers
            },
            topics={topic.name: topic for topic in (_topic(*row) for row in topics)},
        )


def _topic(error: int, name: str | None, topic_id: Any, is_internal: bool, partitions: list[Any]) -> TopicInfo:
    infos = [
        PartitionInfo(
            partition=partition,
            leader=leader,
            leader_epoch=-1 if epoch is None else epoch,
            replicas=tuple(replicas or ()),
            in_sync=tuple(in_sync or ()),
            error=code,
        )
        for code, partition, leader, epoch, replicas, in_sync in partitions
    ]
    infos.sort(key=lambda info: info.partition)
    return TopicInfo(name=name or "", error=error, topic_id=topic_id, is_internal=is_internal, partitions=tuple(infos))
