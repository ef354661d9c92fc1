"""The leader's periodic discovery of topics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from mm2.config.settings import FlowSettings
from mm2.core.log_records import about
from mm2.core.naming.internal_topics import Side, offset_syncs
from mm2.core.plugins import PluginError
from mm2.core.topics.replication_filter import ReplicationFilter
from mm2.core.topics.topic_plan import ReturnedCopy
from mm2.kafka.admin.cluster_admin import ClusterAdmin
from mm2.kafka.admin.internal_topics import ensure_internal_topic
from mm2.kafka.errors import ClusterError
from mm2.kafka.logs.transaction_coordinator import Fenced
from mm2.node.common.current_error import CurrentError
from mm2.node.common.keep_trying import keep_trying
from mm2.node.common.wakeup import Wakeup
from mm2.node.leader.hidden_topics import Published
from mm2.node.leader.remote_topics import Discovery, RemoteTopics
from mm2.node.leader.selection_watch import SelectionWatch

log = logging.getLogger(__name__)

NAMED = 20
"""Maximum number of new topics in a debug line."""

SOON_S = 15.0
"""Interval for retrying a topic that could not be created, if shorter than refresh.topics.interval.seconds: while an
operator repairs the cause (too few brokers, a missing permission), the retry should follow soon."""

_NEVER_S = 86_400.0  # refresh.topics.enabled = false; a day, because a sleep needs a limit

LOOKING = "discovering topics"
"""The reason for waiting until topics have been discovered for the first time."""

DecideStarts = Callable[[Discovery], Awaitable[Discovery]]
"""Stores where partitions start, and returns the discovery without those of which that is unknown. Raises
ClusterError."""


class TopicDiscovery:
    """Discovers the topics of a flow, in rounds.

    ``error`` is why the current round fails; ``latest`` is the result of the last successful round, and ``warnings`` is
    what it left out: one message for all topics, as there can be many.
    """

    def __init__(
        self,
        settings: FlowSettings,
        source: ClusterAdmin,
        target: ClusterAdmin,
        replication_filter: ReplicationFilter,
        *,
        published: Published,
        shown: Discovery | None = None,
        decide_starts: DecideStarts | None = None,
        selection: SelectionWatch | None = None,
        remote_topics: type[RemoteTopics] = RemoteTopics,
    ) -> None:
        """``published``: see `RemoteTopics`. ``shown``: an earlier result to show until the end of the first round.
        ``decide_starts`` is called with the result of each round, and returns what the result is then. ``selection``
        gets it.
        ``remote_topics``: what looks for the topics."""
        self._settings = settings
        self._flow = settings.flow
        self._source = source
        self._target = target
        self._remote_topics = remote_topics(settings, source.cluster, target, replication_filter, published=published)
        self._decide_starts = decide_starts
        self._selection = selection
        self._found = asyncio.Event()
        self._wakeup = Wakeup()
        self.latest = shown
        self.warnings: list[str] = []
        self.error = CurrentError(log, settings.flow, LOOKING if shown is None else None)

    async def wait(self) -> Discovery:
        """Wait for the first result without a limit (``error`` is the reason), and return the latest one."""
        await self._found.wait()
        assert self.latest is not None
        return self.latest

    async def run(self, take: Callable[[Discovery], Awaitable[None]]) -> None:
        """Run rounds until cancelled, and call ``take`` with each result.

        Raises Fenced if starts cannot be stored, because the leader may not write any more.
        """
        await keep_trying(self._ensure_offset_syncs, self.error, "create the offset-syncs topic")
        if self.latest is None:
            self.error.text = LOOKING
        while True:
            first = not self._found.is_set()
            discovery = await keep_trying(
                self.look, self.error, "discover topics", expected=(ClusterError, PluginError), final=(Fenced,)
            )
            await take(discovery)
            await self._wakeup.sleep(self._pause(discovery, soon=first))

    def refresh(self) -> None:
        """Start the next round now instead of at the end of the interval. Topics that are not visible are forgotten."""
        self._remote_topics.forget_hidden()
        self._wakeup.ring()

    async def look(self) -> Discovery:
        """Run one round. Raises ClusterError and PluginError.

        Creating 10,000 topics can take minutes, but each request has a timeout.
        """
        discovery = await self._remote_topics.discover()
        if self._decide_starts is not None:
            discovery = await self._decide_starts(discovery)
        await asyncio.sleep(0)
        self._log_changes(discovery)
        if self._selection is not None:
            await self._selection.take(discovery)
        self.latest = discovery
        self._found.set()
        return discovery

    def _pause(self, discovery: Discovery, *, soon: bool) -> float:
        """Return the seconds until the next round.

        It is ``soon`` after the first round, which possibly preceded the heartbeats topics of this node's other flows.
        """
        source = self._settings.source
        seconds = source.refresh_topics_interval_seconds
        interval = float(seconds) if source.refresh_topics_enabled and seconds >= 0 else _NEVER_S
        return min(interval, SOON_S) if soon or discovery.has_problems else interval

    async def _ensure_offset_syncs(self) -> None:
        source = self._settings.source
        if not source.emit_offset_syncs_enabled:
            return
        topic = offset_syncs(self._settings.policy, self._settings.aliases, Side(source.offset_syncs_topic_location))
        admin = self._source if topic.side is Side.SOURCE else self._target
        await admin.cluster.metadata(())  # reports an unavailable cluster immediately, not after a minute of retries
        await ensure_internal_topic(admin, topic, replication_factor=source.offset_syncs_topic_replication_factor)

    def _log_changes(self, discovery: Discovery) -> None:
        """Log changes since the last round: deleted topics, and topics that cannot be or are not replicated."""
        known = self.latest if self._found.is_set() else None  # ``shown`` was found under other settings
        before = {topic.topic: topic for topic in known.topics} if known is not None else {}
        if log.isEnabledFor(logging.DEBUG):
            new = sorted({topic.topic for topic in discovery.topics} - before.keys())
            log.debug(
                "%s: discovery: %d topics, %d partitions; new: %s%s; %d copies of remote topics left out",
                self._flow,
                len(discovery.topics),
                len(discovery.partitions),
                ", ".join(new[:NAMED]) or "none",
                f" and {len(new) - NAMED} more" if len(new) > NAMED else "",
                len(discovery.returned),
            )
        gone = before.keys() - {topic.topic for topic in discovery.topics} - discovery.returned.keys()
        gone -= discovery.present  # they left the selection
        for name in sorted(gone):
            text = "%s: topic %s was deleted on the source; keeping its remote topic"
            log.info(text, self._flow, name, extra=about(topic=name))
        self._log_returned(discovery.returned, known.returned if known is not None else {})
        for topic in discovery.topics:
            if topic.error is not None and topic != before.get(topic.topic):
                args = self._flow, topic.topic, topic.error
                log.warning("%s: topic %s: %s", *args, extra=about(topic=topic.topic))

    def _log_returned(self, returned: Mapping[str, ReturnedCopy], before: Mapping[str, ReturnedCopy]) -> None:
        """Log the copies that are left out, and show those of users' topics."""
        shown = []
        for name, copy in returned.items():
            is_heartbeats = self._is_heartbeats(name)
            if name not in before:
                log.log(logging.INFO if is_heartbeats else logging.WARNING, "%s: %s", self._flow, copy)
            if not is_heartbeats:
                shown.append(str(copy))
        more = len(shown) - 1
        others = f" (and {more} more {'topic' if more == 1 else 'topics'})" if more > 0 else ""
        self.warnings = [f"{shown[0]}{others}"] if shown else []

    def _is_heartbeats(self, topic: str) -> bool:
        try:
            return self._settings.policy.is_heartbeats_topic(topic)
        except PluginError:  # must not end the round: it decides only where the topic is shown
            return False
