"""Reports copies that a remote topic has lost, in an unclean leader election for example."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import UUID

from flows.partition.replicator import PartitionReplicator
from flows.source_task.spawn import Spawn
from mm2.core.lanes.losses import LossKind


class LostCopies:
    """A remote topic that was deleted and created again has lost nothing unexpectedly: its ID tells it.

    The records are not copied again. They are noticed with the next record that is copied to the partition, by its
    offset on the target.
    """

    def __init__(self, spawn: Spawn, refresh: Callable[[], Awaitable[None]]) -> None:
        """``refresh`` reads the topic IDs again."""
        self._spawn = spawn
        self._refresh = refresh

    def noticed(self, partition: PartitionReplicator, first: int, until: int) -> None:
        """The copies of the source offsets from ``first`` up to, not including, ``until`` are gone."""
        self._spawn(self._report(partition, first, until, partition.topic_ids.remote))

    async def _report(self, partition: PartitionReplicator, first: int, until: int, known: UUID | None) -> None:
        await self._refresh()
        if partition.topic_ids.remote == known:
            reason = f"{partition.target} does not have their copies any more: it was truncated"
            partition.lose(first, until, reason, kind=LossKind.TARGET_TRUNCATED)
