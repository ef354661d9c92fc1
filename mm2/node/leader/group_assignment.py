"""The leader's assignment of the source's consumer groups to checkpoint tasks (Java: MirrorCheckpointConnector)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from mm2.config.settings import FlowSettings
from mm2.core.assignment.checkpoint_task_records import GroupList, encode_groups, share_groups
from mm2.core.plugins import PluginError
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.groups.groups import list_groups
from mm2.node.checkpoint.group_finder import ANSWERED_WITHIN_MS, looks_every_s
from mm2.node.common.current_error import CurrentError
from mm2.node.common.keep_trying import keep_trying
from mm2.node.common.turns import in_turns
from mm2.node.common.wakeup import Wakeup
from mm2.node.store.config_store import ConfigStore

log = logging.getLogger(__name__)


class GroupPlan:
    """Assigns consumer groups to checkpoint tasks during one leader term.

    Invariants: (A) while groups cannot be listed, the lists do not change. (B) All lists that change are published
    together, so that a group moves from one list to another in one step.

    A group moves between tasks without the two phases that a partition needs (`SourceTaskPlan`): the old node stops
    writing for the group as soon as it reads the list, and the new node first reads the checkpoints written before
    (`CheckpointTask`). If both write for a moment, each checkpoint is a correct translation: a consumer that uses the
    older one reads records again, but misses none.
    """

    def __init__(
        self,
        settings: FlowSettings,
        source: Cluster,
        configs: ConfigStore,
        *,
        generation: int,
        put: Callable[[Sequence[tuple[bytes, bytes]]], Awaitable[None]],
        changed: Callable[[], None],
    ) -> None:
        """``put`` writes records to the config topic atomically and raises ClusterErrors.

        ``changed`` is called when lists were published.
        """
        self._settings = settings
        self._source = source
        self._configs = configs
        self._generation = generation
        self._put = put
        self._changed = changed
        self._wakeup = Wakeup()
        self.error = CurrentError(log, settings.flow, level=logging.INFO)  # checkpoint tasks log the same as a warning

    def refresh(self) -> None:
        """List the groups now instead of at the end of the interval."""
        self._wakeup.ring()

    async def run(self) -> None:
        """Keep the lists up to date until cancelled. Raises ClusterError if publishing fails and is not retriable."""
        epoch = self._configs.groups.epoch_of_next_leader(self._generation)
        while True:
            wanted = await keep_trying(self._look, self.error, "list consumer groups")
            await self._publish(self._configs.groups.changes(wanted, epoch))
            await self._wakeup.sleep(looks_every_s(self._settings))

    async def _look(self) -> tuple[frozenset[str], ...]:
        """Return the groups that each task should have. Raises ClusterError if groups cannot be listed."""
        await self._source.metadata(())  # reports an unavailable cluster immediately, not after a timeout
        listed = await list_groups(self._source, timeout_ms=ANSWERED_WITHIN_MS)
        return await asyncio.to_thread(  # 0.1 s for 10,000 groups is too long for the event loop, which serves leases
            share_groups,
            [one.group async for one in in_turns(listed) if self._passes(one.group)],
            tasks_max=self._settings.source.tasks_max,
            previous=self._configs.groups.previous(),
        )

    def _passes(self, group: str) -> bool:
        """Return whether the group filter selects the group; if that is unknown, the group's task reports it."""
        try:
            return self._settings.group_filter(group)
        except PluginError:
            return True

    async def _publish(self, lists: Sequence[GroupList]) -> None:
        if not lists:
            return
        records = [pair for one in lists for pair in encode_groups(one)]
        # Retries write the same records: lists with the same epoch and version must not differ
        await keep_trying(lambda: self._put(records), self.error, "publish consumer group lists", retriable_only=True)
        await self._configs.catch_up()
        self._changed()
