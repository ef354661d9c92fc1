"""The checkpoint tasks of a node and their groups, by the assignments and lists of groups that it receives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

from mm2.core.assignment.checkpoint_task_records import (
    EVERY_GROUP,
    GroupList,
    OwnGroups,
    decode_groups,
    encode_groups,
)
from mm2.core.assignment.partition_assignment import WEIGHT
from mm2.core.assignment.task_placement import TaskAssignments, TaskPlacement
from mm2.core.assignment.tasks import TaskId, TaskKind
from mm2.core.coordination.pauses import NO_PAUSES, Pauses
from mm2.core.lanes.task_states import TaskState
from mm2.node.checkpoint.checkpoint_task import CheckpointTask
from mm2.node.checkpoint.checkpoint_task_runner import CheckpointTaskRunner
from mm2.node.flow.task_host import TaskHost
from mm2.node.flow.task_runners import TASK_RUNNERS, flow_tasks
from mm2.node.status.status_model import GroupStatus
from mm2.node.store.config_store import ConfigStore
from tests.lab.tasks import task_context, unconnected_cluster
from tests.lab.waiting import until
from tests.unit.config.files import flow

SOON = 10.0  # seconds for a asyncio task to end and the next one to start
NO_HEARTBEATS = "emit.heartbeats.enabled = false\n"

runs: list[Unconnected] = []


class Unconnected(CheckpointTask):
    """The task without its clusters."""

    taken = 0

    def take(self, share: OwnGroups) -> None:
        self.taken += share != self._share
        super().take(share)

    async def _work(self) -> None:
        runs.append(self)
        await asyncio.Event().wait()

    @property
    def share(self) -> OwnGroups:
        """The groups of the task now."""
        return self._share


class UnconnectedRunner(CheckpointTaskRunner):
    task_class = Unconnected


class RunnerOfGroup(UnconnectedRunner):
    """Shows one group. ``built``: an item for each time that its status was built."""

    built: ClassVar[list[str]] = []

    class _Groups:
        def __iter__(self) -> Iterator[Any]:
            RunnerOfGroup.built.append("groups")
            return iter(("group",))

    @property
    def groups(self) -> Iterable[GroupStatus]:
        return self._Groups()


@dataclass(slots=True, kw_only=True)
class Node:
    """A node, the lists that its leader publishes, and the tasks it has released."""

    host: TaskHost
    configs: ConfigStore
    epoch: int = 0
    told: list[frozenset[TaskId]] = field(default_factory=list)

    def give(self, *numbers: int) -> None:
        """Apply the leader's next assignment, with these checkpoint tasks."""
        self.epoch += 1
        place = TaskPlacement(owner="me", node="n", since=self.epoch, home="n")
        tasks = {checkpoints(number): place for number in numbers}
        self.host.take(TaskAssignments(epoch=self.epoch, places=tasks), "me")

    def publish(self, *lists: str) -> None:
        """Publish lists of groups; each letter is a group."""
        for task, groups in enumerate(lists):
            record = GroupList(task=task, epoch=self.epoch, version=1, groups=frozenset(groups))
            self.configs.groups.take(decode_groups(*encode_groups(record)[0]))
            self.host.configs_changed()

    def shown(self) -> dict[str, TaskState]:
        """The node's tasks."""
        return {task.id.removeprefix("MirrorCheckpointConnector-"): task.state for task in self.host.tasks()}


def checkpoints(number: int) -> TaskId:
    return TaskId(TaskKind.CHECKPOINT, number)


def mine(groups: str, listed: str | None = None) -> OwnGroups:
    return OwnGroups(groups=frozenset(groups), listed=None if listed is None else frozenset(listed))


@asynccontextmanager
async def node(directory: Path) -> AsyncIterator[Node]:
    settings, cluster = flow(directory, NO_HEARTBEATS), unconnected_cluster()
    configs = ConfigStore(settings, cluster, on_change=lambda: None, on_command=lambda _: None)

    def changed() -> None:
        found.told.append(found.host.holds)

    host = TaskHost(task_context(settings, configs, cluster, node_id="n"), changed)
    found = Node(host=host, configs=configs)
    try:
        yield found
    finally:
        await host.close()


@pytest.fixture(autouse=True)
def unconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    runs.clear()
    monkeypatch.setitem(TASK_RUNNERS, TaskKind.CHECKPOINT, f"{__name__}:UnconnectedRunner")


def test_tasks_follow_the_lists_of_groups(tmp_path: Path) -> None:
    settings, heartbeats = flow(tmp_path, ""), TaskId(TaskKind.HEARTBEAT, 0)
    configs = ConfigStore(settings, unconnected_cluster(), on_change=lambda: None, on_command=lambda _: None)
    assert flow_tasks(settings, configs) == {checkpoints(0): WEIGHT, heartbeats: 1}
    for task, groups in enumerate(["", "abcdefg", "hij"]):
        configs.groups.records[task] = GroupList(task=task, epoch=1, version=1, groups=frozenset(groups))
    assert flow_tasks(settings, configs) == {
        checkpoints(0): WEIGHT,
        checkpoints(1): WEIGHT + 7,
        checkpoints(2): WEIGHT + 3,
        heartbeats: 1,
    }
    assert flow_tasks(flow(tmp_path, "emit.checkpoints.enabled = false\n"), configs) == {heartbeats: 1}


async def test_one_run_does_the_work_of_all_checkpoint_tasks_of_a_node(tmp_path: Path) -> None:
    async with node(tmp_path) as found:
        found.give(0)
        await until(lambda: len(runs) == 1, SOON, "the task runs")
        assert runs[0].share == EVERY_GROUP
        found.publish("ab", "cd", "e")
        await until(lambda: runs[0].share == mine("ab", "abcde"), SOON, "the lists are applied")
        found.give(0, 2)
        assert runs[0].share == mine("abe", "abcde")
        assert found.shown() == dict.fromkeys("02", TaskState.WAITING)
        found.give(1, 2)
        assert runs[0].share == mine("cde")
        assert found.shown() == dict.fromkeys("12", TaskState.WAITING)
        assert found.told == [frozenset({checkpoints(1), checkpoints(2)})], "the first was let go, while others run"
        assert len(runs) == 1


async def test_lists_published_together_are_applied_together(tmp_path: Path) -> None:
    async with node(tmp_path) as found:
        found.give(0, 1)
        found.publish("ab", "cd")
        await until(lambda: len(runs) == 1 and runs[0].share == mine("abcd", "abcd"), SOON, "the task runs")
        before = runs[0].taken
        found.give(0, 1)  # an epoch, so that what is published now is newer
        found.publish("a", "bcde")
        await until(lambda: runs[0].share == mine("abcde", "abcde"), SOON, "the lists are applied")
        assert runs[0].taken == before + 1, "b is not gone for a moment"


async def test_the_last_revoked_task_is_released_after_the_run_ends(tmp_path: Path) -> None:
    async with node(tmp_path) as found:
        found.give(0, 1)
        await until(lambda: len(runs) == 1, SOON, "the task runs")
        found.give()
        assert found.told == []
        assert runs[0].share == mine(""), "for its groups nothing more is written"
        await until(lambda: not found.host.holds, SOON, "both are released")
        assert found.shown() == {}
        found.give(1)
        await until(lambda: len(runs) == 2, SOON, "another run starts")


async def test_pause_and_restart_affect_all_checkpoint_tasks(tmp_path: Path) -> None:
    async with node(tmp_path) as found:
        found.give(1, 2)
        found.publish("ab", "cd", "e")
        await until(lambda: len(runs) == 1, SOON, "the task runs")
        assert found.host.restart(checkpoints(2))
        await until(lambda: len(runs) == 2, SOON, "it restarts")
        assert runs[1].share == mine("cde")
        found.configs.pauses = Pauses(flow=True)
        found.host.configs_changed()
        await until(lambda: found.shown() == dict.fromkeys("12", TaskState.PAUSED), SOON, "both wait")
        assert not found.host.restart(checkpoints(2))
        found.configs.pauses = NO_PAUSES
        found.host.configs_changed()
        await until(lambda: len(runs) == 3, SOON, "they resume")


async def test_the_status_of_groups_is_built_when_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node publishes its status every second; 100,000 partitions of groups would block its event loop."""
    monkeypatch.setitem(TASK_RUNNERS, TaskKind.CHECKPOINT, f"{__name__}:RunnerOfGroup")
    built = RunnerOfGroup.built
    built.clear()
    async with node(tmp_path) as found:
        published = found.host.groups
        assert built == []
        assert [[str(group) for group in published] for _ in range(2)] == [["group"], ["group"]], "two readers"
