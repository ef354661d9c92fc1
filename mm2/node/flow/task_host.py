"""The tasks of one flow that this node runs, as the leader assigned them.

A revoked task drains, stores its offsets and is released; only then can it be assigned to another node.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from mm2.config.settings import FlowSettings
from mm2.core.assignment.task_ownership import TaskOwnership
from mm2.core.assignment.task_placement import TaskAssignments
from mm2.core.assignment.tasks import TaskId
from mm2.node.flow.task_runner import TaskContext
from mm2.node.flow.task_runners import task_runners
from mm2.node.status.partition_ownership import HostedSourceTask
from mm2.node.status.status_model import GroupStatus, TaskStatus

log = logging.getLogger(__name__)


class TaskHost:
    """Runs the assigned tasks, one `TaskRunner` per kind.

    Invariants: (A) a task runs only while this node owns it (`TaskOwnership`). (B) An error of one task ends no other.
    (C) Tasks of a kind that is unknown to this release are ignored.
    """

    def __init__(self, context: TaskContext, changed: Callable[[], None]) -> None:
        """``changed`` is called when tasks were released."""
        self._context = context
        self._changed = changed
        self._ownership = TaskOwnership()
        self._since: Mapping[TaskId, int] = {}
        self._runners = {kind: runner(context, self._release_ended) for kind, runner in task_runners().items()}
        self._unknown_kinds: set[str] = set()

    async def run(self) -> None:
        """Run the background work of each kind until cancelled. Raises a group of ClusterErrors and PluginErrors."""
        async with asyncio.TaskGroup() as group:
            for kind, runner in self._runners.items():
                group.create_task(runner.run(), name=f"{self._context.settings.flow} {kind}")

    def use(self, settings: FlowSettings) -> None:
        """Apply settings whose changes have at most `UpdateMode.RUNNING`.

        Source tasks continue to copy; checkpoint and heartbeat tasks restart.
        """
        self._context.settings = settings
        for runner in self._runners.values():
            runner.settings_changed()

    # -- membership and assignment

    @property
    def epoch(self) -> int:
        """The epoch of the newest assignment that was applied."""
        return self._ownership.epoch

    @property
    def holds(self) -> frozenset[TaskId]:
        """Every task that is possibly running here."""
        return self._ownership.holds

    def take(self, placement: TaskAssignments, member_id: str) -> None:
        """Run the tasks that are assigned to this member. An outdated assignment is ignored."""
        if self._ownership.take(placement.epoch, placement.run(member_id)):
            self._since = {task: place.since for task, place in placement.places.items() if place.owner == member_id}
            self._assign(member_id)

    def drain(self) -> None:
        """End all tasks, after they have stored their offsets."""
        self._ownership.lost()
        self._assign("")

    def membership_lost(self) -> None:
        """End all tasks immediately and store nothing: other nodes may be running them already."""
        self._ownership.lost()
        for runner in self._runners.values():
            runner.revoke()
        self._release_ended()

    def configs_changed(self) -> None:
        """Inform all kinds that records published by the leader have changed."""
        for runner in self._runners.values():
            runner.configs_changed()

    def restart(self, task: TaskId) -> bool:
        """Restart a task; return False if it does not run here."""
        return task.kind in self._runners and self._runners[task.kind].restart(task.number)

    def refresh(self) -> None:
        """Refresh topics and groups now."""
        for runner in self._runners.values():
            runner.refresh()

    def _assign(self, member_id: str) -> None:
        assigned: dict[str, dict[int, int]] = {}
        for task in self._ownership.run:
            assigned.setdefault(task.kind, {})[task.number] = self._since.get(task, 0)
        for kind, runner in self._runners.items():
            runner.assign(assigned.pop(kind, {}), member_id)
        for kind in assigned.keys() - self._unknown_kinds:
            log.warning("%s: ignoring tasks of kind %s: unknown to this release", self._context.settings.flow, kind)
            self._unknown_kinds.add(kind)
        self._release_ended()

    def _release_ended(self) -> None:
        """Release the revoked tasks that have ended."""
        ended = [task for task in self._ownership.drain if not self._is_running(task)]
        for task in ended:
            self._ownership.release(task)
        if ended:
            self._changed()

    def _is_running(self, task: TaskId) -> bool:
        return task.kind in self._runners and task.number in self._runners[task.kind].running

    # -- shutdown of the node

    def freeze(self) -> None:
        """Start and change no tasks from now on; the node drains, source tasks in their lanes."""
        for runner in self._runners.values():
            runner.freeze()

    async def close(self) -> None:
        """End all tasks now."""
        await asyncio.gather(*(runner.close() for runner in self._runners.values()))

    # -- status

    def tasks(self) -> tuple[TaskStatus, ...]:
        """Return the tasks of this node, source tasks first."""
        return tuple(task for runner in self._runners.values() for task in runner.status())

    def reasons(self) -> list[str]:
        """Return the errors that prevent tasks from working, and warnings."""
        return [reason for runner in self._runners.values() for reason in runner.reasons()]

    @property
    def hosted(self) -> tuple[HostedSourceTask, ...]:
        """The source tasks of this node that have started."""
        return tuple(one for runner in self._runners.values() for one in runner.hosted)

    @property
    def fetch_shares(self) -> int:
        """The bytes per second that tasks of this node may fetch, if mm2.max.bytes.per.second limits them."""
        return sum(runner.fetch_shares for runner in self._runners.values())

    @property
    def groups(self) -> Iterable[GroupStatus]:
        """The consumer groups of the source whose offsets this node translates."""
        return _AllGroups(tuple(runner.groups for runner in self._runners.values()))

    @property
    def group_reasons(self) -> tuple[str, ...] | None:
        """Why `groups` is incomplete; None if no checkpoint task runs here."""
        found = [runner.group_reasons for runner in self._runners.values() if runner.group_reasons is not None]
        return tuple(reason for reasons in found for reason in reasons) if found else None

    def topic_uses(self) -> Iterator[tuple[str, str, int]]:
        """Yield the topics that tasks of this node have written to, each with the connector and the task's number."""
        for kind, runner in self._runners.items():
            yield from ((topic, kind, number) for topic, number in runner.topics_written())


@dataclass(frozen=True, slots=True)
class _AllGroups:
    """Builds the status of each group whenever it is iterated.

    The node publishes its status every second on the event loop, and groups can have 100,000 partitions.
    """

    parts: tuple[Iterable[GroupStatus], ...]

    def __iter__(self) -> Iterator[GroupStatus]:
        return chain.from_iterable(self.parts)
