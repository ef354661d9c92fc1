"""What runs on a node while it leads a flow: its tasks, and what they have to say."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from mm2.config.settings import FlowSettings
from mm2.core.lease import TaskState
from mm2.kafka.cluster import Cluster
from mm2.node.checkpoint_tally import CheckpointTally
from mm2.node.desk import Desk
from mm2.node.predecessor import tell_differences
from mm2.node.progress import FlowProgress, worst
from mm2.node.published import GroupStatus, TaskStatus, TopicStatus
from mm2.node.source_offsets import SourceOffsets
from mm2.node.tasks.checkpoint import CheckpointTask, reason_for_none
from mm2.node.tasks.heartbeat import HeartbeatTask
from mm2.node.tasks.source import SourceTask


class Leadership:
    """One time of leading, in generation ``epoch``. ``progress`` and ``tally`` outlive it; the flow owns the clusters.

    Which tasks there are the settings say: heartbeats also where the flow is not enabled, checkpoints only where offset
    syncs are written.
    """

    def __init__(
        self,
        settings: FlowSettings,
        *,
        epoch: int,
        desk: Desk,
        source: Cluster,
        target: Cluster,
        offsets: SourceOffsets,
        progress: FlowProgress,
        tally: CheckpointTally,
        node_id: str,
    ) -> None:
        self._flow = settings.flow
        self._settings = settings
        self._target = target
        self._heartbeat: HeartbeatTask | None = None
        self._source: SourceTask | None = None
        self._checkpoint: CheckpointTask | None = None
        if settings.heartbeats:
            self._heartbeat = HeartbeatTask(settings, offsets_partitions=offsets.partitions, node_id=node_id)
        if settings.enabled:
            self._source = SourceTask(
                settings,
                epoch=epoch,
                desk=desk,
                source=source,
                target=target,
                offsets=offsets,
                progress=progress,
                node_id=node_id,
            )
        if reason_for_none(settings) is None:
            self._checkpoint = CheckpointTask(
                settings, offsets_partitions=offsets.partitions, node_id=node_id, tally=tally
            )

    async def run(self) -> None:
        """Run all tasks until cancelled; what ends one of them ends all. (Checkpoints never end.)"""
        async with asyncio.TaskGroup() as tasks:
            if self._heartbeat is not None:
                tasks.create_task(self._heartbeat.run(), name=f"{self._flow} heartbeat")
            if self._source is not None:
                tasks.create_task(self._source.run(), name=f"{self._flow} source")
                tasks.create_task(tell_differences(self._settings, self._target), name=f"{self._flow} predecessor")
            if self._checkpoint is not None:
                tasks.create_task(self._checkpoint.run(), name=f"{self._flow} checkpoint")

    def drain(self) -> None:
        """Change nothing any more: the node is being drained."""
        if self._source is not None:
            self._source.drain()
        if self._checkpoint is not None:
            self._checkpoint.drain()

    def close(self) -> None:
        """Take everything from the lanes."""
        if self._source is not None:
            self._source.close()

    # -- what is shown

    @property
    def emitted(self) -> int:
        """Heartbeats written."""
        return self._heartbeat.emitted if self._heartbeat is not None else 0

    @property
    def groups(self) -> Iterable[GroupStatus]:
        """The source's consumer groups."""
        return self._checkpoint.groups() if self._checkpoint is not None else ()

    @property
    def group_reasons(self) -> tuple[str, ...]:
        """Why there are none, or why they are not quite what they should be."""
        return self._checkpoint.group_reasons if self._checkpoint is not None else ()

    def tasks(self) -> tuple[TaskStatus, ...]:
        """All tasks, those that copy first."""
        others = [task.status() for task in (self._checkpoint, self._heartbeat) if task is not None]
        return (*(self._source.tasks() if self._source is not None else ()), *others)

    def topics(self) -> tuple[TopicStatus, ...]:
        """All replicated topics."""
        return self._source.topics() if self._source is not None else ()

    def state(self, tasks: Iterable[TaskStatus], topics: Iterable[TopicStatus]) -> TaskState:
        """The state of the whole, when its tasks and topics are these."""
        if self._source is not None and self._source.trouble is not None:
            return TaskState.WAITING
        return worst([*(task.state for task in tasks), *(topic.state for topic in topics)])

    def reasons(self) -> list[str]:
        """One sentence for each thing that keeps the tasks from their work, or that a person should know."""
        found: list[str] = []
        for task in (self._source, self._checkpoint, self._heartbeat):
            if task is not None:
                found += [] if task.trouble is None else [task.trouble]
                found += task.warnings if not isinstance(task, HeartbeatTask) else []
        return found
