"""Reports which topics enter and leave the selection of a flow, also when another node becomes the leader.

Also which ones were deleted on the source.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from mm2.config.plugins.filters import NameFilter, NamePattern
from mm2.config.regex.java_characters import JavaRegexError
from mm2.config.settings import FlowSettings
from mm2.core.plugins import PluginError
from mm2.core.topics.deleted_topics import Deletion, due_deletions, missing_topics
from mm2.core.topics.replication_filter import ReplicationFilter, TopicVerdict
from mm2.core.topics.selection import Selection, left_reason, next_selection, unselected
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.kafka.logs.transaction_coordinator import Fenced
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.node.common.turns import in_turns
from mm2.node.leader.hidden_topics import Published, topics_of
from mm2.node.leader.remote_topics import Discovery
from mm2.node.source.source_offsets import StoredSourceOffsets
from mm2.node.store.config_store import ConfigStore

log = logging.getLogger(__name__)


class DeletionWatch:
    """Stores which topics that were replicated do not exist on the source any more, although their remote topics do.

    (A) A topic is deleted if the source says so by its name. One that it only leaves out of its list can be hidden
        from the node's principal (`HiddenTopicSearch`).
    (B) If a cluster cannot be asked, or what was found cannot be stored, ``deletions`` is unknown until the next round;
        discovery continues, and what is stored stays.

    Used by one leader term, whose `ConfigStore` follows the topic.
    """

    def __init__(
        self,
        settings: FlowSettings,
        source: Cluster,
        target: Cluster,
        configs: ConfigStore,
        put: Callable[[Sequence[tuple[bytes, bytes | None]]], Awaitable[None]],
        *,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """``put`` writes records atomically to the config topic, and raises ClusterErrors. ``clock_ns`` returns
        nanoseconds since 1970."""
        self._settings = settings
        self._source = source
        self._target = target
        self._configs = configs
        self._put = put
        self._clock_ns = clock_ns
        self._is_known = False

    @property
    def deletions(self) -> Mapping[str, Deletion] | None:
        """The deleted topics; None: unknown."""
        return self._configs.deleted_topics.deletions if self._is_known else None

    async def take(self, before: Selection, copied: Collection[str] | None, discovery: Discovery) -> None:
        """Compare with the result of a round. ``before`` is the previous one; ``copied`` None: see `SelectionWatch`.

        Raises Fenced if another node is the leader.
        """
        stored = self._configs.deleted_topics.deletions
        selected = {topic.topic for topic in discovery.topics}
        missing = missing_topics(before, copied or (), stored, selected=selected, present=discovery.present)
        is_known = False
        try:
            gone = await self._gone(missing)
            now_ms = self._clock_ns() // 1_000_000
            if due := list(due_deletions(stored, gone, before=before, now_ms=now_ms)):
                await self._put(due)
                await self._configs.catch_up()
        except Fenced:
            raise
        except ClusterError as error:
            log.info("%s: cannot tell which topics were deleted on the source: %s", self._settings.flow, error)
        else:
            is_known = copied is not None
        finally:
            self._is_known = is_known

    async def _gone(self, missing: Collection[str]) -> frozenset[str]:
        """Return those that do not exist on the source, but have a remote topic. Raises ClusterError."""
        if not missing:
            return frozenset()
        gone = await _absent(self._source, missing)
        remote_topics = {}
        async for name in in_turns(gone):
            try:
                remote_topics[name] = self._settings.policy.format_remote_topic(self._settings.aliases.source, name)
            except PluginError as error:
                log.info("%s: topic %s: %s", self._settings.flow, name, error)
        if not remote_topics:
            return frozenset()
        lost = await _absent(self._target, frozenset(remote_topics.values()))
        return frozenset(name for name, remote in remote_topics.items() if remote not in lost)


async def _absent(cluster: Cluster, names: Collection[str]) -> frozenset[str]:
    """Return those that the cluster says it does not have. Raises ClusterError."""
    topics = (await cluster.metadata(names)).topics
    return frozenset(
        name for name in names if name in topics and topics[name].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


class SelectionWatch:
    """Compares each round of discovery with the one before.

    (A) The first round of a term is compared with what is stored on the target: the lists of source tasks, which the
        leader before this one has published, and the source offsets of everything that was ever copied. So topics that
        drop out because another node, with another file, has become the leader are noticed.
    (B) Topics that left the selection are unknown until the stored offsets were read.

    Used by one leader term. ``file_changed`` is set before the first round: the previous leader had another file.
    """

    def __init__(
        self,
        settings: FlowSettings,
        replication_filter: ReplicationFilter,
        *,
        published: Published,
        stored: StoredSourceOffsets | None,
        previous: SelectionWatch | None = None,
        deletions: DeletionWatch | None = None,
    ) -> None:
        """``previous``: that of this node's term under earlier settings. ``deletions`` gets each round, too."""
        self._settings = settings
        self._filter = replication_filter
        self._published = published
        self._stored = stored
        self._deletions = deletions
        self._excluded = _excluded(settings)
        self._last: Selection | None = previous._last if previous is not None else None
        self._copied: frozenset[str] | None = None
        self._is_known = False
        self.file_changed = False

    @property
    def left(self) -> tuple[str, ...] | None:
        """The topics that were replicated and are not selected any more, although they exist; None: unknown."""
        return tuple(sorted(self._last.left)) if self._last is not None and self._is_known else None

    @property
    def reason(self) -> str | None:
        """The same as a message; None if there are none, or that is unknown."""
        return left_reason(self.left or (), self._settings.flow)

    async def take(self, discovery: Discovery) -> None:
        """Compare with the result of a round, and log what has changed. Raises Fenced if ``deletions`` does."""
        flow = self._settings.flow
        copied = await self._read_copied()
        before = self._last or Selection(selected=frozenset(topics_of(self._published())))
        selected = frozenset(topic.topic for topic in discovery.topics)
        candidates = unselected(before, copied or (), selected=selected, present=discovery.present)
        dropped = {name async for name in in_turns(candidates) if self._is_dropped(name)}
        self._last, change = next_selection(
            before,
            selected=selected,
            failed={topic.topic for topic in discovery.topics if topic.error is not None},
            present=discovery.present,
            dropped=dropped,
            excluded={name async for name in in_turns(dropped) if self._is_excluded(name)},
            file_changed=self.file_changed,
        )
        self._is_known = copied is not None
        for is_warning, line in change.lines(flow):
            log.log(logging.WARNING if is_warning else logging.INFO, "%s: %s", flow, line)
        if self._deletions is not None:
            await self._deletions.take(before, copied, discovery)

    async def _read_copied(self) -> frozenset[str] | None:
        """Return the topics with a stored offset; None: they cannot be read. During a term no other ones are added."""
        if self._copied is None and self._stored is not None:
            try:
                await self._stored.refresh()
            except ClusterError as error:
                log.info("%s: cannot read which topics were copied before: %s", self._settings.flow, error)
                return None
            self._copied = frozenset(one.topic for one in self._stored.stored)
        return self._copied

    def _is_dropped(self, topic: str) -> bool:
        """Return whether the topic filter does not select the topic. Heartbeats do not depend on it alone."""
        try:
            return self._filter.verdict(topic) is TopicVerdict.NOT_SELECTED and not (
                self._settings.policy.is_heartbeats_topic(topic)
            )
        except PluginError:  # the topic has this error
            return False

    def _is_excluded(self, topic: str) -> bool:
        try:
            return self._excluded(topic)
        except PluginError:
            return False


def _excluded(settings: FlowSettings) -> NamePattern:
    """Return the pattern of topics.exclude, also for a filter of the user's own."""
    if isinstance(settings.topic_filter, NameFilter):
        return settings.topic_filter.exclude
    try:
        return NamePattern.of(tuple(settings.source.topics_exclude), "topics.exclude")
    except JavaRegexError:
        return NamePattern.of((), "topics.exclude")
