"""The heartbeat task: one record per interval in ``heartbeats`` on the target (Java: MirrorHeartbeatTask)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping

from mm2.config.clients.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.core.assignment.tasks import TaskKind
from mm2.core.naming import internal_topics
from mm2.core.offsets.connect_offsets import HeartbeatKey, encode_key, encode_offset
from mm2.core.wire.formats import Heartbeat
from mm2.core.wire.murmur2 import partition_of
from mm2.kafka.admin.internal_topics import ensure_internal_topic
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.node.common.current_error import CurrentError
from mm2.node.common.keep_trying import keep_trying
from mm2.node.flow.task_runner import SharedTaskRunner, TaskContext
from mm2.node.store.config_store import ConfigStore

log = logging.getLogger(__name__)


class HeartbeatTaskRunner(SharedTaskRunner):
    """Writes heartbeats, also for a flow that is not enabled. It never connects to the source."""

    kind = TaskKind.HEARTBEAT

    def __init__(self, context: TaskContext, on_ended: Callable[[], None]) -> None:
        super().__init__(context, on_ended)
        self._producer: ControlProducer | None = None
        self._emitting = CurrentError(log, context.settings.flow, "starting")
        self._emitted = False

    @classmethod
    def is_enabled(cls, settings: FlowSettings) -> bool:
        """Return whether emit.heartbeats.enabled is true."""
        return settings.heartbeats

    @classmethod
    def weights(cls, settings: FlowSettings, configs: ConfigStore) -> Mapping[int, int]:
        """Return the only task of this kind."""
        return {0: 1}

    @property
    def error(self) -> str | None:
        """The error that prevents heartbeats from being written."""
        waiting = self._producer.last_error if self._producer is not None else None
        return f"cannot write heartbeats: {waiting}" if waiting is not None else self._emitting.text

    def topics_written(self) -> Iterable[tuple[str, int]]:
        """Return the heartbeats topic."""
        return [(self.context.settings.policy.heartbeats_topic(), 0)] if self._emitted else ()

    async def work(self) -> None:
        """Write heartbeats until cancelled; retry while the target is unavailable."""
        settings = self.context.settings
        self._emitting.text = "starting"
        client = settings.clients.of(ClientRole.HEARTBEATS)
        async with Cluster(client) as cluster, ControlProducer(cluster) as producer:
            self._producer = producer
            try:
                topic = internal_topics.heartbeats(settings.policy)
                admin = settings.admin_class(cluster)
                factor = settings.heartbeat.heartbeats_topic_replication_factor
                await keep_trying(
                    lambda: ensure_internal_topic(admin, topic, replication_factor=factor),
                    self._emitting,
                    f"create topic {topic.name}",
                    max_ms=30_000,
                )
                await self._emit(settings, producer)
            finally:
                self._producer = None

    async def _emit(self, settings: FlowSettings, producer: ControlProducer) -> None:
        aliases, topic = settings.aliases, settings.policy.heartbeats_topic()
        flush_interval_s = settings.worker.offset_flush_interval_ms / 1000
        flushed_at = float("-inf")
        while True:
            now_ms = time.time_ns() // 1_000_000
            heartbeat = Heartbeat(source=aliases.source, target=aliases.target, timestamp_ms=now_ms)
            try:
                await producer.send(topic, 0, heartbeat.key(), heartbeat.value(), timestamp_ms=now_ms)
                self._emitted = True
                self.context.retained.heartbeats += 1
                if time.monotonic() - flushed_at >= flush_interval_s:
                    await self._store_offset(settings, producer)
                    flushed_at = time.monotonic()
                self._emitting.clear()
            except ClusterError as error:
                self._emitting.report(f"cannot write heartbeats: {error}", error)
            await asyncio.sleep(settings.heartbeat.emit_heartbeats_interval_seconds)

    async def _store_offset(self, settings: FlowSettings, producer: ControlProducer) -> None:
        """Store offset 0 for the heartbeat task, as Java's worker does with every flush."""
        key = encode_key(HeartbeatKey(source=settings.aliases.source, target=settings.aliases.target))
        partitions = self.context.topics.source_offsets.partitions
        await producer.send(settings.storage.offsets.name, partition_of(key, partitions), key, encode_offset(0))
