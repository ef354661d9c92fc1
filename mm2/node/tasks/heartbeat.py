"""The heartbeat task: one record every interval into ``heartbeats`` on the target (mm2-compat §5.1)."""

from __future__ import annotations

import asyncio
import logging
import time

from mm2.config.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.core import internal_topics
from mm2.core.connect_offsets import HeartbeatKey, encode_key, encode_offset
from mm2.core.formats import Heartbeat
from mm2.core.lease import TaskState
from mm2.core.murmur2 import partition_of
from mm2.kafka.backoff import Backoff
from mm2.kafka.cluster import Cluster
from mm2.kafka.control_producer import ControlProducer
from mm2.kafka.errors import ClusterError
from mm2.kafka.internal_topics import ensure_internal_topic
from mm2.node.published import TaskStatus

log = logging.getLogger(__name__)

TASK_ID = "MirrorHeartbeatConnector-0"


class HeartbeatTask:
    """Says on the target, once an interval, that this flow can write there. It never contacts the source."""

    def __init__(self, settings: FlowSettings, *, offsets_partitions: int, node_id: str) -> None:
        self._settings = settings
        self._offsets_partitions = offsets_partitions
        self._node_id = node_id
        self._producer: ControlProducer | None = None
        self._trouble: str | None = "starting"
        self.emitted = 0

    @property
    def trouble(self) -> str | None:
        """What keeps heartbeats from being written, None when they are."""
        waiting = self._producer.trouble if self._producer is not None else None
        return f"write heartbeats: {waiting}" if waiting is not None else self._trouble

    async def run(self) -> None:
        """Emit until cancelled; a cluster that is away is waited for."""
        client = self._settings.clients.of(ClientRole.HEARTBEATS)
        async with Cluster(client) as cluster, ControlProducer(cluster) as producer:
            self._producer = producer
            await self._ensure_topic(cluster)
            await self._emit_for_ever(producer)

    async def _ensure_topic(self, cluster: Cluster) -> None:
        topic = internal_topics.heartbeats(self._settings.policy)
        factor = self._settings.heartbeat.heartbeats_topic_replication_factor
        admin = self._settings.admin_class(cluster)
        backoff = Backoff(1_000, 30_000)
        while True:
            try:
                await ensure_internal_topic(admin, topic, replication_factor=factor)
            except ClusterError as error:
                self._trouble = f"create topic {topic.name}: {error}"
                log.warning("%s: %s", self._settings.flow, self._trouble)
                await asyncio.sleep(backoff.next())
            else:
                return

    async def _emit_for_ever(self, producer: ControlProducer) -> None:
        flow, topic = self._settings.flow, self._settings.policy.heartbeats_topic()
        interval = self._settings.heartbeat.emit_heartbeats_interval_seconds
        flush_every = self._settings.worker.offset_flush_interval_ms / 1000
        flushed_at = float("-inf")
        while True:
            now_ms = time.time_ns() // 1_000_000
            heartbeat = Heartbeat(source=flow.source, target=flow.target, timestamp_ms=now_ms)
            try:
                await producer.send(topic, 0, heartbeat.key(), heartbeat.value(), timestamp_ms=now_ms)
                self.emitted += 1
                if time.monotonic() - flushed_at >= flush_every:
                    await self._store_offset(producer)
                    flushed_at = time.monotonic()
                self._trouble = None
            except ClusterError as error:
                self._trouble = f"write heartbeat: {error}"
                log.warning("%s: %s", flow, self._trouble)
            await asyncio.sleep(interval)

    async def _store_offset(self, producer: ControlProducer) -> None:
        """Java's worker stores offset 0 for the heartbeat task with every flush."""
        key = encode_key(HeartbeatKey(source=self._settings.flow.source, target=self._settings.flow.target))
        topic = self._settings.storage.offsets.name
        await producer.send(topic, partition_of(key, self._offsets_partitions), key, encode_offset(0))

    def status(self) -> TaskStatus:
        """The task as it is shown."""
        return TaskStatus(
            id=TASK_ID,
            kind="heartbeat",
            node=self._node_id,
            state=TaskState.RUNNING if self.trouble is None else TaskState.WAITING,
            error=self.trouble,
        )
