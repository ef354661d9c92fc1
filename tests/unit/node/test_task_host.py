"""Which checkpoint tasks run on a node, and which groups they have, as answers and lists of groups come in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mm2.core.assignment import WEIGHT
from mm2.core.group_lists import EVERY_GROUP, GroupList, GroupListBook, OwnGroups, decode_groups, encode_groups
from mm2.core.lease import TaskState
from mm2.core.pauses import NO_PAUSES, Pauses
from mm2.core.placement import Place, Placement
from mm2.core.tasks import TaskId, TaskKind
from mm2.node import task_host
from mm2.node.checkpoint_tally import CheckpointTally
from mm2.node.task_host import CHECKPOINTS, HEARTBEATS, TaskHost, lasting_tasks
from mm2.node.tasks.checkpoint import CheckpointTask
from tests.lab.waiting import until
from tests.unit.config.files import flow

SOON = 10.0  # seconds for a task of the event loop to end and the next to begin
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
        """What it looks after by now."""
        return self._share


@dataclass(slots=True, kw_only=True)
class Node:
    """A node, what its leader publishes, and the tasks it let go."""

    host: TaskHost
    book: GroupListBook
    epoch: int = 0
    told: list[frozenset[TaskId]] = field(default_factory=list)

    def give(self, *numbers: int) -> None:
        """The leader's next answer: these checkpoint tasks."""
        self.epoch += 1
        place = Place(owner="me", node="n", since=self.epoch, home="n")
        tasks = {checkpoints(number): place for number in numbers}
        self.host.take(Placement(epoch=self.epoch, places=tasks), "me")

    def publish(self, *lists: str) -> None:
        """A letter is a group."""
        for task, groups in enumerate(lists):
            record = GroupList(task=task, epoch=self.epoch, version=1, groups=frozenset(groups))
            self.book.take(decode_groups(*encode_groups(record)[0]))
            self.host.regroup()

    def shown(self) -> dict[str, TaskState]:
        """The node's tasks."""
        return {task.id.removeprefix("MirrorCheckpointConnector-"): task.state for task in self.host.tasks()}


def checkpoints(number: int) -> TaskId:
    return TaskId(TaskKind.CHECKPOINT, number)


def mine(groups: str, listed: str | None = None) -> OwnGroups:
    return OwnGroups(groups=frozenset(groups), listed=None if listed is None else frozenset(listed))


@asynccontextmanager
async def node(directory: Path) -> AsyncIterator[Node]:
    book = GroupListBook()

    def changed() -> None:
        found.told.append(found.host.holds)

    host = TaskHost(
        flow(directory, NO_HEARTBEATS),
        slots=None,
        groups=book,
        offsets_partitions=25,
        node_id="n",
        tally=CheckpointTally(),
        changed=changed,
    )
    found = Node(host=host, book=book)
    try:
        yield found
    finally:
        await host.close()


@pytest.fixture(autouse=True)
def unconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    runs.clear()
    monkeypatch.setattr(task_host, "CheckpointTask", Unconnected)


def test_tasks_by_the_lists_of_groups(tmp_path: Path) -> None:
    settings = flow(tmp_path, "")
    assert lasting_tasks(settings, {}) == {CHECKPOINTS: WEIGHT, HEARTBEATS: 1}
    assert lasting_tasks(settings, {1: 7, 2: 3}) == {
        CHECKPOINTS: WEIGHT,
        checkpoints(1): WEIGHT + 7,
        checkpoints(2): WEIGHT + 3,
        HEARTBEATS: 1,
    }
    assert lasting_tasks(flow(tmp_path, "emit.checkpoints.enabled = false\n"), {1: 7}) == {HEARTBEATS: 1}


async def test_one_run_does_the_work_of_all_checkpoint_tasks_of_a_node(tmp_path: Path) -> None:
    async with node(tmp_path) as found:
        found.give(0)
        await until(lambda: len(runs) == 1, SOON, "the task runs")
        assert runs[0].share == EVERY_GROUP
        found.publish("ab", "cd", "e")
        await until(lambda: runs[0].share == mine("ab", "abcde"), SOON, "the lists are heard of")
        found.give(0, 2)
        assert runs[0].share == mine("abe", "abcde")
        assert found.shown() == dict.fromkeys("02", TaskState.WAITING)
        found.give(1, 2)
        assert runs[0].share == mine("cde")
        assert found.shown() == dict.fromkeys("12", TaskState.WAITING)
        assert found.told == [frozenset({checkpoints(1), checkpoints(2)})], "the first was let go, while others run"
        assert len(runs) == 1


async def test_lists_that_change_together_count_together(tmp_path: Path) -> None:
    async with node(tmp_path) as found:
        found.give(0, 1)
        found.publish("ab", "cd")
        await until(lambda: len(runs) == 1 and runs[0].share == mine("abcd", "abcd"), SOON, "the task runs")
        before = runs[0].taken
        found.give(0, 1)  # an epoch, so that what is published now is newer
        found.publish("a", "bcde")
        await until(lambda: runs[0].share == mine("abcde", "abcde"), SOON, "the lists are heard of")
        assert runs[0].taken == before + 1, "b is not gone for a moment"


async def test_when_the_last_task_is_taken_the_run_ends_before_it_is_let_go(tmp_path: Path) -> None:
    async with node(tmp_path) as found:
        found.give(0, 1)
        await until(lambda: len(runs) == 1, SOON, "the task runs")
        found.give()
        assert found.told == []
        assert runs[0].share == mine(""), "for its groups nothing more is written"
        await until(lambda: not found.host.holds, SOON, "both are let go")
        assert found.shown() == {}
        found.give(1)
        await until(lambda: len(runs) == 2, SOON, "another run begins")


async def test_a_pause_and_a_restart_are_of_all_of_them(tmp_path: Path) -> None:
    async with node(tmp_path) as found:
        found.give(1, 2)
        found.publish("ab", "cd", "e")
        await until(lambda: len(runs) == 1, SOON, "the task runs")
        assert found.host.restart(checkpoints(2))
        await until(lambda: len(runs) == 2, SOON, "it begins anew")
        assert runs[1].share == mine("cde")
        found.host.pause(Pauses(flow=True))
        await until(lambda: found.shown() == dict.fromkeys("12", TaskState.PAUSED), SOON, "both wait")
        assert not found.host.restart(checkpoints(2))
        found.host.pause(NO_PAUSES)
        await until(lambda: len(runs) == 3, SOON, "they go on")
