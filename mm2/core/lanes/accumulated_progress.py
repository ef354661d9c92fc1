"""The progress of a source task, accumulated from reports that omit unchanged partitions
(`progress_reports.SourceTaskProgress.whole`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mm2.core.lanes.progress_reports import PartitionProgress, SourceTaskProgress
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import TopicPartition

EVENTS_OF_TASK = 1_000
"""A lane reports once a second, and readers read about as often: twenty partitions can have their last events since."""

PartitionStates = Mapping[TopicPartition, tuple[TaskState, str | None]]
"""Each partition's state and error."""


class AccumulatedProgress:
    """The accumulated reports of one run of a source task.

    (A) ``progress`` is what a complete report would contain now.
    (B) Its events are the newest `EVENTS_OF_TASK` of all reports: a reader can have missed some reports.
    (C) A partition that a report omits is the same object as before, so that readers of ``progress`` can find changes
        by identity. If nothing has changed, ``progress`` itself is the same object.
    """

    def __init__(self, first: SourceTaskProgress) -> None:
        """Raises ValueError if the first report is not complete."""
        if not first.whole:
            raise ValueError(f"{first.flow}: source task {first.source_task}: the first report omits partitions")
        self.progress = first
        self._partitions = _by_place(first)
        self._states: PartitionStates | None = None
        self._running: frozenset[TopicPartition] | None = None

    @property
    def states(self) -> PartitionStates:
        """State and error of each partition; the same object until one of them changes, whatever the progress."""
        if self._states is None:
            found = self.progress.partitions
            self._states = {TopicPartition(p.topic, p.partition): (p.state, p.error) for p in found}
        return self._states

    @property
    def running(self) -> frozenset[TopicPartition]:
        """The partitions that the source task may still be copying."""
        if self._running is None:
            states = self.states.items()
            self._running = frozenset(partition for partition, (state, _) in states if state is not TaskState.STOPPED)
        return self._running

    def take(self, report: SourceTaskProgress) -> bool:
        """Apply the source task's next report; return whether it contains a change."""
        now = report if report.whole else replace(report, whole=True, partitions=self._with(report.partitions))
        before = self.progress.events
        now = replace(now, events=(*before, *report.events)[-EVENTS_OF_TASK:] if report.events else before)
        if now == self.progress:
            return False
        if report.whole:
            self._states = self._running = None
            self._partitions = _by_place(report)
        self.progress = now
        return True

    def _with(self, changed: tuple[PartitionProgress, ...]) -> tuple[PartitionProgress, ...]:
        if not changed:
            return self.progress.partitions
        for one in changed:
            before = self._partitions.get((one.topic, one.partition))
            if before is None or (before.state, before.error) != (one.state, one.error):
                self._states = self._running = None
            self._partitions[one.topic, one.partition] = one
        return tuple(self._partitions.values())


def _by_place(report: SourceTaskProgress) -> dict[tuple[str, int], PartitionProgress]:
    return {(one.topic, one.partition): one for one in report.partitions}
