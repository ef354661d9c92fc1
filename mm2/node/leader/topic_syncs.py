"""Periodic syncs of the leader: topic configurations and ACLs.

Their failures do not stop copying: they are warnings of the flow, and are retried in the next round. (Java fails the
connector if the target is too old for incremental changes, although copied records do not depend on it.)
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from mm2.config.settings import FlowSettings
from mm2.core.topics.replication_filter import ReplicationFilter
from mm2.kafka.admin.cluster_admin import ClusterAdmin
from mm2.kafka.backoff import Backoff
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.node.common.wakeup import Wakeup
from mm2.node.leader.discovery import TopicDiscovery
from mm2.node.leader.topic_acl_sync import TopicAclSync
from mm2.node.leader.topic_config_sync import TopicConfigSync

log = logging.getLogger(__name__)


class TopicSync(Protocol):
    """One kind of sync."""

    async def round(self) -> list[str]:
        """Apply the differences to the target; return a warning for each failure. Raises ClusterError."""


class TopicSyncs:
    """The enabled syncs of one flow."""

    def __init__(
        self,
        settings: FlowSettings,
        source: Cluster,
        target: ClusterAdmin,
        discovery: TopicDiscovery,
        replication_filter: ReplicationFilter,
    ) -> None:
        self._flow = settings.flow
        self._discovery = discovery
        self._warnings: dict[str, list[str]] = {}
        self._wakeups: list[Wakeup] = []
        self._syncs: list[tuple[str, TopicSync, int]] = []
        keys = settings.source
        if keys.sync_topic_configs_enabled and keys.sync_topic_configs_interval_seconds >= 0:
            configs = TopicConfigSync(settings, source, target, discovery)
            self._syncs.append(("sync topic configurations", configs, keys.sync_topic_configs_interval_seconds))
        if keys.sync_topic_acls_enabled and keys.sync_topic_acls_interval_seconds >= 0:
            acls = TopicAclSync(settings, source, target, discovery, replication_filter)
            self._syncs.append(("sync topic ACLs", acls, keys.sync_topic_acls_interval_seconds))

    @property
    def warnings(self) -> list[str]:
        """The warnings of the last rounds."""
        return [warning for warnings in self._warnings.values() for warning in warnings]

    def refresh(self) -> None:
        """Start the next round of each sync now instead of at the end of its interval."""
        for wakeup in self._wakeups:
            wakeup.ring()

    async def run(self) -> None:
        """Run each sync after the first discovery, then at its interval, until cancelled."""
        await self._discovery.wait()
        async with asyncio.TaskGroup() as group:
            for what, sync, interval in self._syncs:
                group.create_task(self._keep(what, sync, interval), name=f"{self._flow} {what}")

    async def _keep(self, what: str, sync: TopicSync, interval: int) -> None:
        wakeup = Wakeup()
        self._wakeups.append(wakeup)
        backoff = Backoff(1_000, 60_000)  # retries sooner than the interval, which is ten minutes by default
        while True:
            pause = float(interval)
            try:
                warnings = await sync.round()
                backoff.reset()
            except ClusterError as error:
                warnings = [f"cannot {what}: {error}"]
                pause = min(pause, backoff.next()) if error.retriable else pause
            except Exception as error:
                log.exception("%s: cannot %s: unexpected error; retrying", self._flow, what)
                warnings = [f"cannot {what}: unexpected error (see the log): {error!r}"]
            for warning in warnings:
                if warning not in self._warnings.get(what, ()):
                    log.warning("%s: %s", self._flow, warning)
            self._warnings[what] = warnings
            await wakeup.sleep(pause)
