"""The leader's search for topics, over and over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from mm2.config.settings import FlowSettings
from mm2.core.internal_topics import Side, offset_syncs
from mm2.core.plugins import PluginError
from mm2.core.replication_filter import ReplicationFilter
from mm2.kafka.admin import ClusterAdmin
from mm2.kafka.backoff import Backoff
from mm2.kafka.errors import ClusterError
from mm2.kafka.internal_topics import ensure_internal_topic
from mm2.node.alarm import Alarm
from mm2.node.remote_topics import Discovery, RemoteTopics
from mm2.node.trouble import troubled

log = logging.getLogger(__name__)

SOON_S = 15.0
"""A topic that could not be created is tried again this often, whatever refresh.topics.interval.seconds says: its cause
(too few brokers, a missing permission) is usually being repaired by somebody who is waiting."""

_NEVER_S = 86_400.0  # once a day: refresh.topics.enabled = false, but a sleep wants an end


class TopicDiscovery:
    """Finds what a flow replicates. ``trouble`` is what keeps it from that, None when nothing does; ``latest`` is what
    the last good round found."""

    def __init__(
        self,
        settings: FlowSettings,
        source: ClusterAdmin,
        target: ClusterAdmin,
        chosen: ReplicationFilter,
        shown: Discovery | None = None,
    ) -> None:
        """``shown``: what to show until the first round is over."""
        self._settings = settings
        self._flow = settings.flow
        self._source = source
        self._target = target
        self._remote_topics = RemoteTopics(settings, source.cluster, target, chosen)
        self._found = asyncio.Event()
        self._alarm = Alarm()
        self.latest = shown
        self.trouble: str | None = "looking for topics" if shown is None else None

    async def wait(self) -> Discovery:
        """The latest, once there is one. The node's life is the only deadline: ``trouble`` says what it waits for."""
        await self._found.wait()
        assert self.latest is not None
        return self.latest

    async def run(self, take: Callable[[Discovery], Awaitable[None]]) -> None:
        """Give each round's outcome to ``take`` until cancelled."""
        backoff = Backoff(1_000, 10_000)  # a round costs both clusters a full metadata answer
        await self._ensure_offset_syncs(backoff)
        while True:
            first = not self._found.is_set()
            try:
                discovery = await self.look()
            except (ClusterError, PluginError) as error:
                self.trouble = troubled(log, self._flow, self.trouble, f"discover topics: {error}")
                await asyncio.sleep(backoff.next())
                continue
            backoff.reset()
            await take(discovery)
            await self._alarm.sleep(self._pause(discovery, soon=first))

    def look_now(self) -> None:
        """Begin the next round now, not at the end of the interval."""
        self._alarm.ring()

    async def look(self) -> Discovery:
        """One round. It may take minutes to make 10,000 topics, but each request has its deadline. Raises ClusterError,
        PluginError."""
        discovery = await self._remote_topics.discover()
        await asyncio.sleep(0)
        self._tell(discovery)
        self.trouble, self.latest = None, discovery
        self._found.set()
        return discovery

    def _pause(self, discovery: Discovery, *, soon: bool) -> float:
        """Seconds until the next round; ``soon`` after the first, which came before the other flows of this node had
        made their heartbeats topics."""
        source = self._settings.source
        seconds = source.refresh_topics_interval_seconds
        interval = float(seconds) if source.refresh_topics_enabled and seconds >= 0 else _NEVER_S
        return min(interval, SOON_S) if soon or discovery.troubled else interval

    async def _ensure_offset_syncs(self, backoff: Backoff) -> None:
        source = self._settings.source
        if not source.emit_offset_syncs_enabled:
            return
        topic = offset_syncs(self._settings.policy, self._flow, Side(source.offset_syncs_topic_location))
        admin = self._source if topic.side is Side.SOURCE else self._target
        while True:
            try:
                await admin.cluster.metadata(())  # a cluster that is away is said at once, not after a minute of trying
                await ensure_internal_topic(
                    admin, topic, replication_factor=source.offset_syncs_topic_replication_factor
                )
            except ClusterError as error:
                self.trouble = troubled(log, self._flow, self.trouble, f"create the offset-syncs topic: {error}")
                await asyncio.sleep(backoff.next())
            else:
                backoff.reset()
                return

    def _tell(self, discovery: Discovery) -> None:
        """What is new in it: topics that are gone, and topics in trouble."""
        known = self.latest if self._found.is_set() else None  # what was only shown was chosen by other rules
        before = {topic.topic: topic for topic in known.topics} if known is not None else {}
        for name in sorted(before.keys() - {topic.topic for topic in discovery.topics}):
            log.info("%s: topic %s is gone from the source; its remote topic stays", self._flow, name)
        for topic in discovery.topics:
            if topic.error is not None and topic != before.get(topic.topic):
                log.warning("%s: topic %s: %s", self._flow, topic.topic, topic.error)
