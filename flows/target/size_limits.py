"""The largest batch that a remote topic accepts, read from its configuration."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from flows.partition.replicator import PartitionReplicator
from flows.source_task.spawn import Spawn
from mm2.core.topics.topic_configs import ConfigEntry
from mm2.kafka.admin.topic_configs import describe_topic_configs
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterClosed, ClusterError

LIMITS = ("max.message.bytes", "segment.bytes")
"""A broker rejects a batch above the first with MESSAGE_TOO_LARGE, and above the second with RECORD_LIST_TOO_LARGE
(UnifiedLog.analyzeAndValidateRecords); both count the whole batch."""

TIMEOUT_MS = 5_000
"""Until then the partition sends nothing. A broker answers within milliseconds, and without the limit it can be found
by halving."""


class SizeLimits:
    """Reads the limits for partitions whose batches were rejected, those that wait together with one request.

    Each partition is answered, with None if the limit cannot be read: without DESCRIBE_CONFIGS on the topic, for
    example, which is no error.
    """

    def __init__(self, target: Cluster, spawn: Spawn) -> None:
        self._target = target
        self._spawn = spawn
        self._waiting: set[PartitionReplicator] = set()
        self._reading = False

    def read(self, partition: PartitionReplicator) -> None:
        """Read the limit of the remote topic, and report it to ``partition``: `PartitionReplicator.size_limit_read`."""
        self._waiting.add(partition)
        if not self._reading:
            self._reading = True
            self._spawn(self._read())

    async def _read(self) -> None:
        await asyncio.sleep(0)  # collect the partitions that are added in this turn of the event loop
        try:
            while self._waiting:
                partitions, self._waiting = self._waiting, set()
                limits = await self._limits({partition.target.topic for partition in partitions})
                now = time.monotonic()
                for partition in partitions:
                    partition.size_limit_read(limits.get(partition.target.topic), now)
        finally:
            self._reading = False

    async def _limits(self, topics: set[str]) -> Mapping[str, int | None]:
        try:
            found = await describe_topic_configs(self._target, topics, timeout_ms=TIMEOUT_MS)
        except ClusterClosed:
            raise
        except ClusterError:
            return {}
        return {topic: size_limit(configs) for topic, configs in found.items() if not isinstance(configs, BrokerError)}


def size_limit(configs: Mapping[str, ConfigEntry]) -> int | None:
    """Return the largest batch, in bytes, that a topic with these configurations accepts; None if they do not say."""
    values = (configs[name].value for name in LIMITS if name in configs)
    return min((int(value) for value in values if value is not None and value.isdecimal()), default=None)
