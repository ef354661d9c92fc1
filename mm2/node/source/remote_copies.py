"""Partitions without a stored offset of which the target has copies: their stored offsets may be gone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mm2.config.settings import FlowSettings
from mm2.core.access.rights import on_topic
from mm2.core.naming.names import TopicPartition
from mm2.core.plugins import PluginError
from mm2.core.settings.client import IsolationLevel
from mm2.core.topics.acls import Operation
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.offsets import OffsetSpec, list_offsets
from mm2.kafka.errors import BrokerError, ClusterError
from mm2.kafka.logs.record_stream import records_between
from mm2.kafka.protocol.error_codes import ErrorCode

ANSWER_MS = 1_000
"""How long the target is asked for offsets of remote partitions, since leases wait for them; the next lease asks
again."""

FENCES = 8
"""A remote partition that ends before this offset may have markers only, of transactions that fenced source tasks."""

AT_ONCE = 8
"""Remote partitions that are read at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCopies:
    """The partitions of which the target has ``copies``, and why that is ``unknown`` of others."""

    copied: frozenset[TopicPartition] = frozenset()
    unknown: Mapping[TopicPartition, ClusterError] = field(default_factory=dict)


def tells_source(settings: FlowSettings, topic: str) -> bool:
    """Return whether the name of the remote topic of ``topic`` tells from which topic its records are.

    False if a custom policy fails, which is reported elsewhere.
    """
    try:
        remote = settings.policy.format_remote_topic(settings.aliases.source, topic)
        return remote != topic and settings.policy.upstream_topic(remote) == topic
    except PluginError:
        return False


class RemoteCopies:
    """Finds the partitions of which the target has copies.

    (A) The records of a remote topic are copies if its name tells the source topic, as A.orders does. Under
        IdentityReplicationPolicy, or a policy with one remote topic for several topics, others can have written them:
        nothing is said about such topics.
    (B) Markers are no copies, nor are records of aborted transactions. Records that have expired are. Without the
        permission to read the remote topic, everything behind the first `FENCES` offsets counts.
    """

    def __init__(self, settings: FlowSettings, target: Cluster) -> None:
        self._settings = settings
        self._target = target
        self._read: set[TopicPartition] = set()  # remote partitions that have copies

    async def find(self, partitions: Iterable[TopicPartition]) -> FoundCopies:
        """Return which of these source partitions have copies; each broker is asked once for all of them."""
        remote = {place: one for one in partitions if (place := self._remote(one)) is not None}
        if not remote:
            return FoundCopies()
        _, without_leader = await self._target.by_leader(remote.keys())
        there = {place for place in remote if not _is_missing(without_leader.get(place))}
        committed = IsolationLevel.READ_COMMITTED
        starts, ends = await asyncio.gather(
            list_offsets(self._target, there, OffsetSpec.EARLIEST, timeout_ms=ANSWER_MS),
            list_offsets(self._target, there, OffsetSpec.LATEST, isolation=committed, timeout_ms=ANSWER_MS),
        )
        copied: set[TopicPartition] = set()
        unknown: dict[TopicPartition, ClusterError] = {}
        to_read: dict[TopicPartition, int] = {}
        for place in there:
            start, end = starts[place], ends[place]
            error = start if isinstance(start, ClusterError) else end
            if isinstance(start, int) and isinstance(end, int):
                if start > 0 or (place in self._read and end > 0):
                    copied.add(place)
                elif end > 0:
                    to_read[place] = end
            elif isinstance(error, ClusterError) and not _is_missing(error):
                unknown[place] = _naming_write(error, place, self._target.settings.alias)
        limit = asyncio.Semaphore(AT_ONCE)

        async def read(place: TopicPartition, end: int) -> None:
            async with limit:
                try:
                    if await self._has_records(place, end):
                        copied.add(place)
                except ClusterError as error:
                    unknown[place] = error

        await asyncio.gather(*(read(place, end) for place, end in to_read.items()))
        self._read |= copied
        return FoundCopies(
            copied=frozenset(remote[place] for place in copied),
            unknown={remote[place]: error for place, error in unknown.items()},
        )

    def _remote(self, partition: TopicPartition) -> TopicPartition | None:
        """Return the remote partition if only copies can be in it: (A)."""
        if not tells_source(self._settings, partition.topic):
            return None
        remote = self._settings.policy.format_remote_topic(self._settings.aliases.source, partition.topic)
        return TopicPartition(remote, partition.partition)

    async def _has_records(self, place: TopicPartition, end: int) -> bool:
        records = records_between(
            self._target, place, 0, end, isolation=IsolationLevel.READ_COMMITTED, purpose="remote copies"
        )
        try:
            async for _ in records:
                return True
        except BrokerError as error:
            if error.code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise
            return end > FENCES
        return False


def _is_missing(error: ClusterError | None) -> bool:
    return isinstance(error, BrokerError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _naming_write(error: ClusterError, place: TopicPartition, cluster: str) -> ClusterError:
    """Name the permission that the node needs for the topic, which includes the missing one."""
    if isinstance(error, BrokerError) and error.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return BrokerError(error.code, f"describe {place}", right=on_topic(Operation.WRITE, place.topic, cluster))
    return error
