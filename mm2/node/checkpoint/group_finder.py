"""Selection of the source's consumer groups to translate, and the reasons for excluding the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping

from mm2.config.settings import FlowSettings
from mm2.core.assignment.checkpoint_task_records import OwnGroups
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.checkpoints import CommittedOffset, GroupSelection, GroupVerdict, remote_topic
from mm2.core.plugins import PluginError
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.kafka.groups.groups import committed_offsets, list_groups
from mm2.node.checkpoint.group_status_store import GroupStatusStore, RemoteName
from mm2.node.common.turns import in_turns

log = logging.getLogger(__name__)

ANSWERED_WITHIN_MS = 10_000
"""Timeout of a request to the source, including retries. Groups without a response wait for the next refresh."""

GROUPS_AT_ONCE = 200
"""Groups per request: with 100 partitions each, a response of a few hundred kilobytes."""

NEVER_S = 86_400.0 * 365
"""The interval for refresh.groups.enabled = false: groups are listed only once, at the start."""


def looks_every_s(settings: FlowSettings) -> float:
    """Return the interval for listing groups, in seconds."""
    interval = float(settings.checkpoint.refresh_groups_interval_seconds)
    return interval if settings.checkpoint.refresh_groups_enabled and interval > 0 else NEVER_S


class GroupFinder:
    """Finds the groups to translate.

    ``chosen`` are these groups, None before the first `find`. They are limited to the groups of ``share``, and
    ``statuses`` to the groups that the share shows. ``current``: groups were listed after the last change of the share.
    """

    def __init__(self, settings: FlowSettings, statuses: GroupStatusStore, share: OwnGroups) -> None:
        self._settings = settings
        self._statuses = statuses
        self._share = share
        self._filter = GroupSelection(selects=settings.group_filter, topics=settings.topic_filter)
        self.chosen: list[str] | None = None
        self.current = False

    def take(self, share: OwnGroups) -> None:
        """Use a new share. Groups that left it are removed immediately; new ones are found by the next `find`."""
        self._share, self.current = share, False
        self._statuses.only(share.shows)
        if self.chosen is not None:
            self.chosen = [group for group in self.chosen if share.has(group)]

    async def find(self, source: Cluster) -> None:
        """List all groups of the source and choose among them. Raises ClusterError if the source is unavailable."""
        await source.metadata(())  # reports an unavailable cluster immediately, not after a timeout
        listed = await list_groups(source, timeout_ms=ANSWERED_WITHIN_MS)
        share = self._share
        shown = {one.group: one.state for one in listed if share.shows(one.group)}
        self._statuses.keep(shown)
        candidates = [group async for group in in_turns(sorted(shown)) if self._is_candidate(group)]
        chosen = []
        for start in range(0, len(candidates), GROUPS_AT_ONCE):
            some = candidates[start : start + GROUPS_AT_ONCE]
            answers = await committed_offsets(source, some, timeout_ms=ANSWERED_WITHIN_MS)
            chosen += [group async for group in in_turns(some) if self._is_chosen(group, answers[group])]
            if any(isinstance(answer, ClusterError) for answer in answers.values()):
                await source.metadata(())  # raises if the cluster is unavailable now, as each chunk would time out
            await asyncio.sleep(0)
        chosen = [group for group in chosen if self._share.has(group)]  # the share can have changed meanwhile
        if self.chosen is None or set(self.chosen) != set(chosen):
            flow = self._settings.flow
            log.info(
                "%s: translating the offsets of %d of the source's %d consumer groups on this node",
                flow,
                len(chosen),
                len(listed),
            )
        self.chosen, self.current = chosen, share is self._share

    def selects(self, group: str) -> bool:
        """Return whether the group is in the share and passes the group filter."""
        try:
            return self._share.has(group) and self._filter.selects(group)
        except PluginError:
            return False

    def _is_candidate(self, group: str) -> bool:
        try:
            if self._filter.selects(group):
                return self._share.has(group)  # if not, the leader has not assigned it to a task yet
            reason = self._settings.group_filter.refusal(group, "groups")
        except PluginError as error:
            self._statuses.failed(group, str(error))
            return False
        self._statuses.filtered(group, reason or GroupVerdict.NOT_SELECTED.value)
        return False

    def _is_chosen(self, group: str, committed: Mapping[TopicPartition, CommittedOffset | None] | ClusterError) -> bool:
        if isinstance(committed, ClusterError):
            self._statuses.failed(group, str(committed))
            return True  # the checkpoint rounds retry
        try:
            verdict = self._filter.verdict(group, committed)
        except PluginError as error:
            self._statuses.failed(group, str(error))
            return False
        if verdict is GroupVerdict.CHECKPOINTED:
            self._statuses.selected(group)
            return True
        self._statuses.filtered(group, self._no_topic(committed))
        return False

    def _no_topic(self, committed: Iterable[TopicPartition]) -> str:
        topics = sorted({one.topic for one in committed})
        if not topics:
            return "the group has committed no offsets"
        refusal = self._settings.topic_filter.refusal(topics[0], "topics")
        return f"{GroupVerdict.NO_TOPIC.value}; {topics[0]}: {refusal}"


def remote_name(settings: FlowSettings, topic: str) -> RemoteName:
    """Return a source topic's name on the target, or why it is not replicated."""
    refusal = settings.topic_filter.refusal(topic, "topics")
    if refusal is not None:
        return RemoteName(refusal=refusal)
    try:
        return RemoteName(topic=remote_topic(topic, aliases=settings.aliases, policy=settings.policy))
    except PluginError as error:
        return RemoteName(refusal=str(error))
