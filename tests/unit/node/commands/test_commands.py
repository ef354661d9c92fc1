"""Commands that a leader refuses, with the reasons. The leader is not connected, so it can store no command."""

from __future__ import annotations

from pathlib import Path

import pytest

from mm2.core.access.audit import CommandOrigin
from mm2.core.access.callers import Caller, Role
from mm2.core.assignment.task_placement import TaskAssignments, TaskPlacement
from mm2.core.assignment.tasks import TaskId, TaskKind
from mm2.core.coordination.commands import Command, CommandRefusedError
from mm2.core.coordination.pauses import Pauses
from mm2.core.coordination.query_uses import ReportedQueryUses
from mm2.core.lanes.task_states import TaskState
from mm2.core.settings.client import ClientSettings
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.node.commands.accept_loss import AcceptLoss
from mm2.node.commands.leader import LeaderHandle
from mm2.node.commands.pause import Pause
from mm2.node.commands.refresh import Refresh
from mm2.node.commands.registry import carry_out
from mm2.node.commands.restart import RestartTask
from mm2.node.commands.resume import Resume
from mm2.node.commands.skip import Skip
from mm2.node.leader.leader_term import LeaderTerm
from mm2.node.status.status_model import FlowStatus
from mm2.node.store.config_store import ConfigStore
from mm2.node.store.loss_store import LossStore
from tests.contract import samples
from tests.unit.config import files

SLOT = TaskId(TaskKind.SOURCE, 0)
WAITING = TaskId(TaskKind.SOURCE, 1)
ORIGIN = CommandOrigin(id="0123456789abcdef", caller=Caller(name="alice", role=Role.OPERATOR, address="10.0.0.7"))
PLACEMENT = TaskAssignments(
    epoch=1,
    places={
        SLOT: TaskPlacement(owner="m", node="node-1", since=1, home="node-1"),
        WAITING: TaskPlacement(owner=None, node="node-2", since=1, home="node-2"),
    },
)


async def refused(
    directory: Path, command: Command, pauses: Pauses, whole: FlowStatus | None = None
) -> CommandRefusedError:
    settings, cluster = files.flow(directory), Cluster(ClientSettings(bootstrap_servers=("localhost:1",)))
    configs = ConfigStore(settings, cluster, on_change=lambda: None, on_command=lambda _: None)
    configs.pauses = pauses
    leader_term = LeaderTerm(
        settings,
        generation=1,
        source=cluster,
        target=cluster,
        configs=configs,
        reports={},
        query_uses=ReportedQueryUses(),
        fingerprint=lambda: None,
        changed=lambda: None,
    )

    async def status() -> FlowStatus:
        assert whole is not None
        return whole

    losses = LossStore(settings, cluster, ControlProducer(cluster), lambda: None)
    leader = LeaderHandle(
        term=leader_term, configs=configs, placement=PLACEMENT, losses=losses, status=status, origin=ORIGIN
    )
    with pytest.raises(CommandRefusedError) as refusal:
        await carry_out(command, leader)
    assert configs.pauses == pauses
    return refusal.value


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (Resume(topics=("orders",)), "orders: not paused by name; paused: the flow as a whole, payments"),
        (
            RestartTask(task="MirrorSourceConnector-7"),
            "there is no task MirrorSourceConnector-7; the flow's tasks: MirrorSourceConnector-0,"
            " MirrorSourceConnector-1",
        ),
    ],
)
async def test_unknown_topics_and_tasks(tmp_path: Path, command: Command, message: str) -> None:
    refusal = await refused(tmp_path, command, Pauses(flow=True, topics=frozenset({"payments"})))
    assert (str(refusal), refusal.is_unknown) == (message, True)


async def test_topics_that_are_not_discovered_yet(tmp_path: Path) -> None:
    refusal = await refused(tmp_path, Pause(topics=("orders",)), Pauses())
    assert str(refusal) == "the topics of the flow are not known yet: discovering topics"
    assert not refusal.is_unknown


async def test_resume_while_nothing_is_paused(tmp_path: Path) -> None:
    refusal = await refused(tmp_path, Resume(topics=("orders",)), Pauses())
    assert str(refusal) == "orders: not paused by name; paused: nothing"


async def test_an_unassigned_task_cannot_be_restarted(tmp_path: Path) -> None:
    refusal = await refused(tmp_path, RestartTask(task=str(WAITING)), Pauses())
    assert str(refusal) == "MirrorSourceConnector-1 is not assigned to a node; it starts when it is assigned"
    assert not refusal.is_unknown


@pytest.mark.parametrize("command", [Pause(), Resume(), Resume(topics=("t",)), RestartTask(task=str(SLOT)), Refresh()])
async def test_a_command_that_cannot_be_stored_is_refused(tmp_path: Path, command: Command) -> None:
    refusal = await refused(tmp_path, command, Pauses(topics=frozenset({"t"})))
    assert str(refusal).startswith("cannot store the command: ")
    assert not refusal.is_unknown


async def test_a_partition_is_not_accepted_without_its_topic(tmp_path: Path) -> None:
    refusal = await refused(tmp_path, AcceptLoss(partition=0), Pauses())
    assert str(refusal) == "a partition needs its topic"


def stopped(*, at: int | None, reasons: tuple[str, ...] = ()) -> FlowStatus:
    """Return a flow with partition orders-0, which is stopped at an offset or runs."""
    state = TaskState.RUNNING if at is None else TaskState.FAILED
    error = None if at is None else f"cannot copy orders-0 offset {at}"
    one = samples.partition(0, state=state, error=error, stopped_at=at, stopped_until=None if at is None else at + 1)
    return samples.flow(topics=(samples.topic("orders", one),), reasons=reasons)


@pytest.mark.parametrize(
    ("command", "whole", "message"),
    [
        (
            Skip(topic="orders", partition=0, offset=5),
            stopped(at=7),
            "orders-0 is not stopped at this offset, but at offset 7: cannot copy orders-0 offset 7",
        ),
        (
            Skip(topic="orders", partition=0, offset=5),
            stopped(at=None),
            "orders-0 is not stopped by a record that cannot be copied: it is RUNNING",
        ),
        (
            Skip(topic="orders", partition=0, offset=5),
            stopped(at=None, reasons=("state of node n2 is unknown: refused", "other")),
            "orders-0 is not stopped by a record that cannot be copied: it is RUNNING (state of node n2 is unknown: "
            "refused)",
        ),
        (
            Skip(topic="orders", partition=0, offset=5),
            samples.flow(samples.topic("orders", samples.partition(0, state=TaskState.WAITING, position=None))),
            "orders-0 is not stopped by a record that cannot be copied: it is WAITING (its position is not known now, "
            "try again)",
        ),
        (Skip(topic="orders", partition=1, offset=5), stopped(at=5), "the flow does not replicate orders-1"),
        (Skip(topic="order", partition=0, offset=5), stopped(at=5), "the flow does not replicate order"),
        (Skip(topic="orders", partition=0, offset=5), stopped(at=5), "cannot store the command: "),
    ],
)
async def test_skips_where_the_partition_is_not_stopped(
    tmp_path: Path, command: Skip, whole: FlowStatus, message: str
) -> None:
    refusal = await refused(tmp_path, command, Pauses(), whole)
    assert str(refusal).startswith(message)
    assert refusal.is_unknown == ("does not replicate" in message)
