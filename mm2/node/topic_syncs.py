"""What the leader goes on bringing to remote topics: changed configurations and ACLs.

Nothing of this stops the copying. What a sync cannot do is a warning of the flow, and is tried again at its next round.
(Java fails the connector where a target is too old for incremental changes; copied records do not depend on it.)
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from mm2.config.settings import FlowSettings
from mm2.core.replication_filter import ReplicationFilter
from mm2.kafka.admin import ClusterAdmin
from mm2.kafka.backoff import Backoff
from mm2.kafka.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.node.alarm import Alarm
from mm2.node.discovery import TopicDiscovery
from mm2.node.topic_acl_sync import TopicAclSync
from mm2.node.topic_config_sync import TopicConfigSync

log = logging.getLogger(__name__)


class TopicSync(Protocol):
    """One kind of it."""

    async def round(self) -> list[str]:
        """Bring over what is missing; returns what could not be, in sentences. Raises ClusterError."""


class TopicSyncs:
    """All of them, for one flow."""

    def __init__(
        self,
        settings: FlowSettings,
        source: Cluster,
        target: ClusterAdmin,
        discovery: TopicDiscovery,
        chosen: ReplicationFilter,
    ) -> None:
        self._flow = settings.flow
        self._discovery = discovery
        self._warnings: dict[str, list[str]] = {}
        self._alarms: list[Alarm] = []
        self._syncs: list[tuple[str, TopicSync, int]] = []
        keys = settings.source
        if keys.sync_topic_configs_enabled and keys.sync_topic_configs_interval_seconds >= 0:
            configs = TopicConfigSync(settings, source, target, discovery)
            self._syncs.append(("sync topic configurations", configs, keys.sync_topic_configs_interval_seconds))
        if keys.sync_topic_acls_enabled and keys.sync_topic_acls_interval_seconds >= 0:
            acls = TopicAclSync(settings, source, target, chosen)
            self._syncs.append(("sync ACLs of topics", acls, keys.sync_topic_acls_interval_seconds))

    @property
    def warnings(self) -> list[str]:
        """What the last rounds could not do."""
        return [warning for warnings in self._warnings.values() for warning in warnings]

    def look_now(self) -> None:
        """Begin the next round of each now, not at the end of its interval."""
        for alarm in self._alarms:
            alarm.ring()

    async def run(self) -> None:
        """Each at once when there are remote topics, then every interval, until cancelled."""
        await self._discovery.wait()
        async with asyncio.TaskGroup() as group:
            for what, sync, interval in self._syncs:
                group.create_task(self._keep(what, sync, interval), name=f"{self._flow} {what}")

    async def _keep(self, what: str, sync: TopicSync, interval: int) -> None:
        alarm = Alarm()
        self._alarms.append(alarm)
        backoff = Backoff(1_000, 60_000)  # after a failure sooner than the interval, which is ten minutes by default
        while True:
            pause = float(interval)
            try:
                warnings = await sync.round()
                backoff.reset()
            except ClusterError as error:
                warnings = [f"{what}: {error}"]
                pause = min(pause, backoff.next()) if error.retriable else pause
            except Exception as error:
                log.exception("%s: %s: unexpected error", self._flow, what)
                warnings = [f"{what}: unexpected error, see the log: {error!r}"]
            for warning in warnings:
                if warning not in self._warnings.get(what, ()):
                    log.warning("%s: %s", self._flow, warning)
            self._warnings[what] = warnings
            await alarm.sleep(pause)
