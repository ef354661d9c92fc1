"""What one node may be running of a flow: answers of the leader come in; what to run, drain and report comes out."""

from __future__ import annotations

from collections.abc import Collection

from mm2.core.tasks import TaskId

NEVER = -1  # epoch of a node that has heard no answer yet


class Holdings:
    """Invariants:

    A. ``holds`` has every task that runs: one counts from the moment it is given until `let_go` says that it has ended
       and its offsets are stored.
    B. An answer not newer than the last one changes nothing.
    """

    def __init__(self) -> None:
        self.epoch = NEVER
        self._run: frozenset[TaskId] = frozenset()
        self._holds: set[TaskId] = set()

    @property
    def run(self) -> frozenset[TaskId]:
        """What should run: start what does not, and again what had been drained in between."""
        return self._run

    @property
    def drain(self) -> frozenset[TaskId]:
        """What was taken and has not ended yet."""
        return frozenset(self._holds - self._run)

    @property
    def holds(self) -> frozenset[TaskId]:
        """What to report."""
        return frozenset(self._holds)

    def take(self, epoch: int, run: Collection[TaskId]) -> bool:
        """The leader's answer: everything this node is to run. False when it is an old one."""
        if epoch <= self.epoch:
            return False
        self.epoch, self._run = epoch, frozenset(run)
        self._holds |= self._run
        return True

    def let_go(self, task: TaskId) -> bool:
        """A task has ended and stored its offsets. True when the leader waits to hear of it; False when it was given
        back meanwhile, or is none of ours."""
        if task in self._run or task not in self._holds:
            return False
        self._holds.remove(task)
        return True

    def lost(self) -> None:
        """The node is no member any more: everything has to end, and the next answer counts whatever its epoch."""
        self.epoch, self._run = NEVER, frozenset()
