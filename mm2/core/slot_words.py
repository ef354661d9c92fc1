"""A slot's newest word, put together from reports that leave out what has not changed (`lease.SlotProgress.whole`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mm2.core.lease import PartitionProgress, SlotProgress, TaskState
from mm2.core.names import TopicPartition

PartitionStates = Mapping[TopicPartition, tuple[TaskState, str | None]]
"""Each partition's state and error."""


class SlotWord:
    """What one run of a slot has said so far.

    (A) ``progress`` is what a whole report would say now.
    (B) What a report left out is the very object of before: whoever goes through ``progress`` again and again knows by
        identity what is news. Without any news ``progress`` as a whole is the same object.
    """

    def __init__(self, first: SlotProgress) -> None:
        """Raises ValueError when the first report is not whole."""
        if not first.whole:
            raise ValueError(f"{first.flow} slot {first.slot}: the first report leaves partitions out")
        self.progress = first
        self._partitions = _by_place(first)
        self._states: PartitionStates | None = None
        self._running: frozenset[TopicPartition] | None = None

    @property
    def states(self) -> PartitionStates:
        """How it is with each partition: the same object until that changes, however far they get."""
        if self._states is None:
            found = self.progress.partitions
            self._states = {TopicPartition(p.topic, p.partition): (p.state, p.error) for p in found}
        return self._states

    @property
    def running(self) -> frozenset[TopicPartition]:
        """The partitions that the slot may still be copying."""
        if self._running is None:
            states = self.states.items()
            self._running = frozenset(partition for partition, (state, _) in states if state is not TaskState.STOPPED)
        return self._running

    def take(self, report: SlotProgress) -> bool:
        """The slot's next report; whether it says anything new."""
        now = report if report.whole else replace(report, whole=True, partitions=self._with(report.partitions))
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


def _by_place(report: SlotProgress) -> dict[tuple[str, int], PartitionProgress]:
    return {(one.topic, one.partition): one for one in report.partitions}
