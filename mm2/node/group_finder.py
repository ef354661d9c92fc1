"""Which consumer groups of the source are looked after, and by which line of the file the others are not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping

from mm2.config.settings import FlowSettings
from mm2.core.checkpoints import CommittedOffset, GroupFilter, GroupVerdict, remote_topic
from mm2.core.group_lists import OwnGroups
from mm2.core.names import TopicPartition
from mm2.core.plugins import PluginError
from mm2.kafka.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.kafka.groups import committed_offsets, list_groups
from mm2.node.group_book import GroupBook, RemoteName

log = logging.getLogger(__name__)

ANSWERED_WITHIN_MS = 10_000
"""One question to the source with all its retries. Groups that gave no answer by then wait for the next look."""

GROUPS_AT_ONCE = 200
"""Asked about together: at 100 partitions each, a few hundred kilobytes of answer."""

NEVER_S = 86_400.0 * 365
"""refresh.groups.enabled=false: the groups of the start are all there are."""


def looks_every_s(settings: FlowSettings) -> float:
    """Seconds from one look for groups to the next."""
    interval = float(settings.checkpoint.refresh_groups_interval_seconds)
    return interval if settings.checkpoint.refresh_groups_enabled and interval > 0 else NEVER_S


class GroupFinder:
    """``chosen`` are the groups to translate, None before the first look (mm2-compat §4.1). Only groups of ``share``
    are among them, and only those that it shows are told of in ``book``. ``current``: the source was asked since
    ``share`` is what it is."""

    def __init__(self, settings: FlowSettings, book: GroupBook, share: OwnGroups) -> None:
        self._settings = settings
        self._book = book
        self._share = share
        self._filter = GroupFilter(selects=settings.group_filter, topics=settings.topic_filter)
        self.chosen: list[str] | None = None
        self.current = False

    def take(self, share: OwnGroups) -> None:
        """From now on these. Groups that went are forgotten at once, those that came are found by the next look."""
        self._share, self.current = share, False
        self._book.only(share.shows)
        if self.chosen is not None:
            self.chosen = [group for group in self.chosen if share.has(group)]

    async def find(self, source: Cluster) -> None:
        """Look at all groups of the source. Raises ClusterError when it cannot be asked."""
        await source.metadata(())  # a cluster that is away is said at once, not after a deadline of trying
        listed = await list_groups(source, timeout_ms=ANSWERED_WITHIN_MS)
        share = self._share
        shown = {one.group: one.state for one in listed if share.shows(one.group)}
        self._book.keep(shown)
        candidates = [group for group in sorted(shown) if self._is_candidate(group)]
        chosen = []
        for start in range(0, len(candidates), GROUPS_AT_ONCE):
            some = candidates[start : start + GROUPS_AT_ONCE]
            answers = await committed_offsets(source, some, timeout_ms=ANSWERED_WITHIN_MS)
            chosen += [group for group in some if self._is_chosen(group, answers[group])]
            if any(isinstance(answer, ClusterError) for answer in answers.values()):
                await source.metadata(())  # the other chunks would wait as long for a cluster that is away by now
            await asyncio.sleep(0)
        chosen = [group for group in chosen if self._share.has(group)]  # which may have become another since
        if self.chosen is None or set(self.chosen) != set(chosen):
            flow = self._settings.flow
            log.info(
                "%s: offsets of %d of the source's %d consumer groups are translated here",
                flow,
                len(chosen),
                len(listed),
            )
        self.chosen, self.current = chosen, share is self._share

    def selects(self, group: str) -> bool:
        """Whether it is one of ours that the group filter lets pass."""
        try:
            return self._share.has(group) and self._filter.selects(group)
        except PluginError:
            return False

    def _is_candidate(self, group: str) -> bool:
        try:
            if self._filter.selects(group):
                return self._share.has(group)  # no task has it yet: the leader is about to see it
            reason = self._settings.group_filter.refusal(group, "groups")
        except PluginError as error:
            self._book.failed(group, str(error))
            return False
        self._book.filtered(group, reason or GroupVerdict.NOT_SELECTED.value)
        return False

    def _is_chosen(self, group: str, committed: Mapping[TopicPartition, CommittedOffset | None] | ClusterError) -> bool:
        if isinstance(committed, ClusterError):
            self._book.failed(group, str(committed))
            return True  # the rounds ask again
        try:
            verdict = self._filter.verdict(group, committed)
        except PluginError as error:
            self._book.failed(group, str(error))
            return False
        if verdict is GroupVerdict.CHECKPOINTED:
            self._book.selected(group)
            return True
        self._book.filtered(group, self._no_topic(committed))
        return False

    def _no_topic(self, committed: Iterable[TopicPartition]) -> str:
        topics = sorted({one.topic for one in committed})
        if not topics:
            return "it has committed no offsets"
        refusal = self._settings.topic_filter.refusal(topics[0], "topics")
        return f"{GroupVerdict.NO_TOPIC.value}; of {topics[0]}: {refusal}"


def remote_name(settings: FlowSettings, topic: str) -> RemoteName:
    """What a source topic is on the target."""
    refusal = settings.topic_filter.refusal(topic, "topics")
    if refusal is not None:
        return RemoteName(refusal=refusal)
    try:
        return RemoteName(topic=remote_topic(topic, flow=settings.flow, policy=settings.policy))
    except PluginError as error:
        return RemoteName(refusal=str(error))
