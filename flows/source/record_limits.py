"""The memory that one record of a source topic may take when it is decoded."""

from __future__ import annotations

import logging

from flows.batch.decoded import MAX_RECORD
from mm2.core.settings.client import FetchSettings
from mm2.kafka.admin.topic_configs import TopicConfigs, describe_topic_configs
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterClosed, ClusterError

log = logging.getLogger(__name__)

_LIMIT = "max.message.bytes"


def record_limit(settings: FetchSettings) -> int:
    """Return how many bytes a record of every topic may take, with these settings of the flow's consumer."""
    return max(MAX_RECORD, settings.max_partition_bytes)


class RecordLimits:
    """A limit for all topics, and the max.message.bytes of those in which a record was larger than that.

    A topic is asked for only when such a record was found, since few have one.
    """

    def __init__(self, source: Cluster, max_record: int) -> None:
        """``max_record``: bytes that a record of every topic may take."""
        self._source = source
        self._max_record = max_record
        self._of_topic: dict[str, int] = {}

    def of(self, topic: str) -> int:
        """Return how many bytes a record of the topic may take, as far as it is known."""
        return max(self._max_record, self._of_topic.get(topic, 0))

    async def allows_more(self, topic: str, than: int) -> bool:
        """Return whether a record of the topic may take more bytes than ``than``, with which it was found too large.

        The topic's configuration is read, unless that was done since then; the partition waits meanwhile. False if it
        cannot be read: without DESCRIBE_CONFIGS on the topic, for example. Raises ClusterClosed.
        """
        if self.of(topic) > than:
            return True
        configs: TopicConfigs | ClusterError
        try:
            configs = (await describe_topic_configs(self._source, {topic}))[topic]
        except ClusterClosed:
            raise
        except ClusterError as error:
            configs = error
        if isinstance(configs, ClusterError):
            log.warning("%s: %s of the source cannot be read: %s", topic, _LIMIT, configs)
            return False
        value = configs[_LIMIT].value if _LIMIT in configs else None
        self._of_topic[topic] = int(value) if value is not None and value.isdecimal() else 0
        return self.of(topic) > than
