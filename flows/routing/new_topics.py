"""Topics that message handlers name and that the target does not have."""

from __future__ import annotations

import logging

from mm2.kafka.admin.topics import NewTopic, create_topics
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import check
from mm2.kafka.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

_BROKERS_DEFAULT = -1


class NewTopics:
    """Creates topics on the target, as its brokers did for the producer of MirrorMaker 1."""

    def __init__(self, source: Cluster, target: Cluster) -> None:
        self._source = source
        self._target = target

    async def create(self, topic: str, source_topic: str) -> None:
        """Create ``topic`` on the target with as many partitions as ``source_topic`` has, unless it exists.

        The brokers choose the replication factor. Raises ClusterError.
        """
        found = (await self._source.metadata({source_topic})).topics[source_topic]
        check(found.error, f"read the partitions of topic {source_topic} on the source")
        new = NewTopic(name=topic, partitions=len(found.partitions), replication_factor=_BROKERS_DEFAULT)
        error = (await create_topics(self._target, [new]))[topic]
        if error is None:
            count = new.partitions
            log.info("created topic %s on the target with %d partition%s", topic, count, "" if count == 1 else "s")
        elif error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise error
