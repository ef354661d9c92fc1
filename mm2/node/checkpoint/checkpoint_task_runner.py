"""The checkpoint tasks that are assigned to a node, and their consumer groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

from mm2.config.settings import FlowSettings
from mm2.core.assignment.checkpoint_task_records import FIRST
from mm2.core.assignment.partition_assignment import WEIGHT
from mm2.core.assignment.tasks import TaskKind
from mm2.node.checkpoint.checkpoint_task import CheckpointTask, reason_for_none
from mm2.node.flow.task_runner import STARTING, SharedTaskRunner, TaskContext
from mm2.node.status.status_model import GroupStatus, TaskStatus
from mm2.node.store.config_store import ConfigStore


class CheckpointTaskRunner(SharedTaskRunner):
    """Runs one `CheckpointTask` for all checkpoint tasks of the node, with the groups of their lists."""

    kind = TaskKind.CHECKPOINT
    task_class: ClassVar[type[CheckpointTask]] = CheckpointTask
    """What translates."""

    def __init__(self, context: TaskContext, on_ended: Callable[[], None]) -> None:
        super().__init__(context, on_ended)
        self._checkpoint: CheckpointTask | None = None
        self._pending: asyncio.Handle | None = None
        self._shared: tuple[int, frozenset[int]] | None = None

    @classmethod
    def is_enabled(cls, settings: FlowSettings) -> bool:
        """Return whether the flow translates offsets, which requires offset syncs."""
        return reason_for_none(settings) is None

    @classmethod
    def weights(cls, settings: FlowSettings, configs: ConfigStore) -> Mapping[int, int]:
        """Return the tasks that have groups, and the first task, which always exists."""
        counts = {FIRST: 0} | configs.groups.sizes()
        return {number: WEIGHT + count for number, count in counts.items()}

    @property
    def paused(self) -> bool:
        """Whether the flow is paused as a whole."""
        return self.context.configs.pauses.flow

    def update(self) -> None:
        """Start or end the task, and update its groups."""
        self._share_groups()
        super().update()

    def configs_changed(self) -> None:
        """Update the task after lists of groups or pauses have changed.

        Lists that were published together are applied together, so that a group that moves between two lists is not
        missing for a moment.
        """
        if self._pending is None:
            self._pending = asyncio.get_running_loop().call_soon(self.update)

    def _share_groups(self) -> None:
        if self._pending is not None:
            self._pending.cancel()
            self._pending = None
        groups = self.context.configs.groups
        known = groups.revision, self.numbers
        if self._checkpoint is not None and known != self._shared:
            self._shared = known
            self._checkpoint.take(groups.share(self.numbers))

    async def work(self) -> None:
        """Translate until cancelled."""
        self._checkpoint = self.task_class(
            self.context.settings,
            offsets_partitions=self.context.topics.source_offsets.partitions,
            node_id=self.context.node_id,
            checkpoint_metrics=self.context.retained.checkpoint_metrics,
            share=self.context.configs.groups.share(self.numbers),
            may_send=self.context.may_send,
        )
        try:
            await self._checkpoint.run()
        finally:
            self._checkpoint = None

    def freeze(self) -> None:
        """Write nothing more, because the node drains."""
        if self._checkpoint is not None:
            self._checkpoint.drain()

    def refresh(self) -> None:
        """List consumer groups now."""
        if self._checkpoint is not None:
            self._checkpoint.look_now()

    # -- status

    def status(self) -> list[TaskStatus]:
        """Return the status of each task."""
        if self._checkpoint is None:
            return super().status()
        return [self._checkpoint.status(number) for number in sorted(self.running)]

    @property
    def error(self) -> str | None:
        """The error that prevents checkpoints from being written."""
        return self._checkpoint.last_error if self._checkpoint is not None else STARTING

    def reasons(self) -> list[str]:
        """Return the error that prevents checkpoints from being written, and warnings."""
        return [*super().reasons(), *(self._checkpoint.warnings if self._checkpoint is not None else ())]

    def topics_written(self) -> Iterable[tuple[str, int]]:
        """Return the checkpoints topic once checkpoints have been written."""
        if self._checkpoint is None or not self.context.retained.checkpoint_metrics.latency_by_group:
            return ()
        settings = self.context.settings
        return [(settings.policy.checkpoints_topic(settings.aliases.source), min(self.running))]

    @property
    def groups(self) -> Iterable[GroupStatus]:
        """The consumer groups that this node shows."""
        return self._checkpoint.groups() if self._checkpoint is not None else ()

    @property
    def group_reasons(self) -> tuple[str, ...] | None:
        """Why `groups` is incomplete; None if no checkpoint task runs here."""
        return self._checkpoint.group_reasons if self._checkpoint is not None else None
