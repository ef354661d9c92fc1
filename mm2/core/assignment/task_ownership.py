"""The tasks of a flow that one node owns: which to run, drain and report, derived from the leader's assignments."""

from __future__ import annotations

from collections.abc import Collection

from mm2.core.assignment.tasks import TaskId

NEVER = -1  # the assignment epoch of a node that has received no assignment yet


class TaskOwnership:
    """Task ownership of one node.

    Invariants:
    A. ``holds`` contains every running task, from its assignment until `release` reports that it has stopped and its
       offsets are stored.
    B. An assignment not newer than the last one changes nothing.
    """

    def __init__(self) -> None:
        self.epoch = NEVER
        self._run: frozenset[TaskId] = frozenset()
        self._holds: set[TaskId] = set()

    @property
    def run(self) -> frozenset[TaskId]:
        """The tasks that should run; those that do not, or were drained in between, have to be started."""
        return self._run

    @property
    def drain(self) -> frozenset[TaskId]:
        """The revoked tasks that have not been released yet."""
        return frozenset(self._holds - self._run)

    @property
    def holds(self) -> frozenset[TaskId]:
        """The tasks to report to the leader."""
        return frozenset(self._holds)

    def take(self, epoch: int, run: Collection[TaskId]) -> bool:
        """Apply the leader's assignment, all tasks this node has to run. Return False if it is outdated."""
        if epoch <= self.epoch:
            return False
        self.epoch, self._run = epoch, frozenset(run)
        self._holds |= self._run
        return True

    def release(self, task: TaskId) -> bool:
        """Release a task that has stopped and stored its offsets.

        Return False if it was assigned again meanwhile, or is not held.
        """
        if task in self._run or task not in self._holds:
            return False
        self._holds.remove(task)
        return True

    def lost(self) -> None:
        """Record that membership was lost: all tasks have to stop; the next assignment is accepted with any epoch."""
        self.epoch, self._run = NEVER, frozenset()
