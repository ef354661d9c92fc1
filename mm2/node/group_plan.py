"""The leader's search for the source's consumer groups, and the lists of them that it publishes for checkpoint tasks
(mm2-compat §4.1)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from mm2.config.settings import FlowSettings
from mm2.core.group_lists import GroupList, encode_groups, share_groups
from mm2.core.plugins import PluginError
from mm2.kafka.backoff import Backoff
from mm2.kafka.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.kafka.groups import list_groups
from mm2.node.alarm import Alarm
from mm2.node.config_topic import ConfigTopic
from mm2.node.group_finder import ANSWERED_WITHIN_MS, looks_every_s

log = logging.getLogger(__name__)

RETRY_FIRST_MS = 1_000
RETRY_LONGEST_MS = 10_000
"""A cluster that is away is asked again after a second, then more rarely."""


class GroupPlan:
    """One leader's. Invariants: (A) while groups cannot be listed, lists stay as they are. (B) all lists that change
    are published together, so that a group leaves one and comes into another at once.

    A group goes from task to task without the two steps that a partition takes (`SlotPlan`): each node stops for a
    group as soon as it reads the list, and the new one first reads what was written for it (`CheckpointTask`). If both
    write a checkpoint for a moment, each is a true translation: a consumer that goes by the earlier one reads records
    again, and misses none.
    """

    def __init__(
        self,
        settings: FlowSettings,
        source: Cluster,
        configs: ConfigTopic,
        *,
        generation: int,
        put: Callable[[Sequence[tuple[bytes, bytes]]], Awaitable[None]],
        changed: Callable[[], None],
    ) -> None:
        """``put`` writes records into the config topic, all or none; it raises ClusterErrors. ``changed`` is called
        when lists were published."""
        self._settings = settings
        self._source = source
        self._configs = configs
        self._generation = generation
        self._put = put
        self._changed = changed
        self._alarm = Alarm()
        self.trouble: str | None = None

    def look_now(self) -> None:
        """Look for groups now, not at the end of the interval."""
        self._alarm.ring()

    async def run(self) -> None:
        """Keep the lists true until cancelled. Raises ClusterErrors of publishing that waiting does not heal."""
        epoch = self._configs.groups.epoch_of_next_leader(self._generation)
        backoff = Backoff(RETRY_FIRST_MS, RETRY_LONGEST_MS)
        while True:
            try:
                wanted = await self._look()
            except ClusterError as error:
                self._tell(f"look for consumer groups: {error}")
                await asyncio.sleep(backoff.next())
                continue
            backoff.reset()
            self.trouble = None
            await self._publish(self._configs.groups.changes(wanted, epoch))
            await self._alarm.sleep(looks_every_s(self._settings))

    async def _look(self) -> tuple[frozenset[str], ...]:
        """The groups that each task should have. Raises ClusterError when they cannot be listed."""
        await self._source.metadata(())  # a cluster that is away is said at once, not after a deadline of trying
        listed = await list_groups(self._source, timeout_ms=ANSWERED_WITHIN_MS)
        return await asyncio.to_thread(  # a tenth of a second for 10,000 groups: leases cannot wait
            share_groups,
            [one.group for one in listed if self._passes(one.group)],
            tasks_max=self._settings.source.tasks_max,
            previous=self._configs.groups.previous(),
        )

    def _passes(self, group: str) -> bool:
        """By its name. Where a user's filter fails, the group's task tells of that."""
        try:
            return self._settings.group_filter(group)
        except PluginError:
            return True

    async def _publish(self, lists: Sequence[GroupList]) -> None:
        if not lists:
            return
        records = [pair for one in lists for pair in encode_groups(one)]
        backoff = Backoff(RETRY_FIRST_MS, RETRY_LONGEST_MS)
        while True:  # the same ones until they are stored: lists of one age must not differ
            try:
                await self._put(records)
            except ClusterError as error:
                if not error.retriable:
                    raise
                self._tell(f"publish the lists of groups: {error}")
                await asyncio.sleep(backoff.next())
            else:
                break
        self.trouble = None
        await self._configs.catch_up()
        self._changed()

    def _tell(self, sentence: str) -> None:
        """The tasks warn of their own looks; this is one line for whoever wonders why lists stay."""
        if sentence != self.trouble:
            log.info("%s: the lists of groups stay as they are: %s", self._settings.flow, sentence)
        self.trouble = sentence
