"""A kind of task is one class and one line of a table; nodes without it ignore its tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from mm2.config.settings import FlowSettings
from mm2.core.assignment.rebalance import rebalance
from mm2.core.assignment.task_placement import MemberState, TaskAssignments
from mm2.core.assignment.tasks import TaskId
from mm2.core.lanes.task_states import TaskState
from mm2.kafka.errors import Unreachable
from mm2.node.flow.task_host import TaskHost
from mm2.node.flow.task_runner import SharedTaskRunner
from mm2.node.flow.task_runners import TASK_RUNNERS, flow_tasks
from mm2.node.store.config_store import ConfigStore
from tests.lab.tasks import task_context, unconnected_cluster
from tests.lab.waiting import until
from tests.unit.config.files import flow

SOON = 10.0  # seconds
ONLY_OURS = "emit.checkpoints.enabled = false\nemit.heartbeats.enabled = false\n"


class SchemaTaskRunner(SharedTaskRunner):
    """Copies schemas, as a later release might."""

    kind = "MirrorSchemaConnector"
    retry_failed_ms = 50
    attempts: list[frozenset[int]]
    fails = False

    @classmethod
    def is_enabled(cls, settings: FlowSettings) -> bool:
        return True

    @classmethod
    def weights(cls, settings: FlowSettings, configs: ConfigStore) -> Mapping[int, int]:
        return {0: 10, 1: 20}

    async def work(self) -> None:
        self.attempts.append(self.numbers)
        if self.fails:
            raise Unreachable("no schema registry")
        await asyncio.Event().wait()


@pytest.fixture
def schemas(monkeypatch: pytest.MonkeyPatch) -> type[SchemaTaskRunner]:
    """The kind is registered."""
    monkeypatch.setitem(TASK_RUNNERS, SchemaTaskRunner.kind, f"{__name__}:SchemaTaskRunner")
    SchemaTaskRunner.attempts, SchemaTaskRunner.fails = [], False
    return SchemaTaskRunner


def task(number: int) -> TaskId:
    return TaskId(SchemaTaskRunner.kind, number)


def published(settings: FlowSettings) -> ConfigStore:
    return ConfigStore(settings, unconnected_cluster(), on_change=lambda: None, on_command=lambda _: None)


def host(settings: FlowSettings, released: list[frozenset[TaskId]]) -> TaskHost:
    context = task_context(settings, published(settings), unconnected_cluster(), node_id="n")
    found = TaskHost(context, lambda: released.append(found.holds))
    return found


def answer(tasks: Mapping[TaskId, int], before: TaskAssignments, epoch: int) -> TaskAssignments:
    """The assignment that a leader sends to its only member, as the member decodes it."""
    kinds = frozenset(task.kind for task in (*tasks, *before.places))
    members = {"me": MemberState(node="n", capacity=1, kinds=kinds, holds=frozenset(before.places), epoch=epoch - 1)}
    placement = TaskAssignments.from_json(rebalance(tasks, members, before=before, epoch=epoch, now_ms=0).to_json())
    assert placement is not None
    return placement


async def test_a_registered_kind_is_assigned_run_and_released(tmp_path: Path, schemas: type[SchemaTaskRunner]) -> None:
    settings = flow(tmp_path, ONLY_OURS)
    tasks = flow_tasks(settings, published(settings))
    assert tasks == {task(0): 10, task(1): 20}
    released: list[frozenset[TaskId]] = []
    node = host(settings, released)
    placement = answer(tasks, TaskAssignments(), 1)
    node.take(placement, "me")
    await until(lambda: schemas.attempts == [{0, 1}], SOON, "the tasks run")
    assert [(one.id, one.kind, one.state) for one in node.tasks()] == [
        ("MirrorSchemaConnector-0", "schema", TaskState.RUNNING),
        ("MirrorSchemaConnector-1", "schema", TaskState.RUNNING),
    ]
    assert node.restart(task(1))
    await until(lambda: len(schemas.attempts) == 2, SOON, "the tasks restart")
    node.membership_lost()
    assert node.holds == {task(0), task(1)}, "until they have ended"
    await until(lambda: released == [frozenset()], SOON, "both are released")
    assert node.tasks() == ()
    await node.close()


async def test_a_task_that_fails_is_shown_and_retried(
    tmp_path: Path, schemas: type[SchemaTaskRunner], caplog: pytest.LogCaptureFixture
) -> None:
    schemas.fails = True
    node = host(flow(tmp_path, ONLY_OURS), [])
    node.take(answer({task(0): 1}, TaskAssignments(), 1), "me")
    await until(lambda: any(one.state is TaskState.FAILED for one in node.tasks()), SOON, "it fails")
    assert "no schema registry" in caplog.text
    schemas.fails = False
    await until(lambda: [one.state for one in node.tasks()] == [TaskState.RUNNING], SOON, "it runs")
    await node.close()
    assert node.tasks() == ()


async def test_a_kind_of_a_later_release_is_ignored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    released: list[frozenset[TaskId]] = []
    node = host(flow(tmp_path, ONLY_OURS), released)
    placement = answer({task(0): 1}, TaskAssignments(), 1)
    assert placement.run("me") == (task(0),)
    node.take(placement, "me")
    node.take(answer({task(0): 1}, placement, 2), "me")
    assert node.tasks() == ()
    assert not node.restart(task(0))
    assert [record.getMessage() for record in caplog.records] == [
        "A->B: ignoring tasks of kind MirrorSchemaConnector: unknown to this release"
    ]
    node.take(TaskAssignments(epoch=3), "me")
    assert released == [frozenset()]


def test_a_leader_revokes_tasks_of_a_kind_unknown_to_it(tmp_path: Path) -> None:
    placement = answer({task(0): 1}, TaskAssignments(), 1)
    taken = answer({}, placement, 2)
    assert taken.run("me") == ()
    assert answer({}, taken, 3).places[task(0)].owner == "me", "until it says that it released it"
