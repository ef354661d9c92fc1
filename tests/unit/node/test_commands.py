"""What a leader refuses to do, and why. It is not connected: what it does not refuse cannot be written down."""

from __future__ import annotations

from pathlib import Path

import pytest

from mm2.core.client_settings import ClientSettings
from mm2.core.commands import Command, CommandRefusedError, Pause, Refresh, RestartTask, Resume
from mm2.core.pauses import Pauses
from mm2.core.placement import Place, Placement
from mm2.core.tasks import TaskId, TaskKind
from mm2.kafka.cluster import Cluster
from mm2.node.commands import carry_out
from mm2.node.config_topic import ConfigTopic
from mm2.node.leadership import Leadership
from tests.unit.config import files

SLOT = TaskId(TaskKind.SOURCE, 0)
WAITING = TaskId(TaskKind.SOURCE, 1)
PLACEMENT = Placement(
    epoch=1,
    places={
        SLOT: Place(owner="m", node="node-1", since=1, home="node-1"),
        WAITING: Place(owner=None, node="node-2", since=1, home="node-2"),
    },
)


async def refused(directory: Path, command: Command, pauses: Pauses) -> CommandRefusedError:
    settings, cluster = files.flow(directory), Cluster(ClientSettings(bootstrap_servers=("localhost:1",)))
    configs = ConfigTopic(settings, cluster, on_change=lambda: None, on_command=lambda _: None)
    configs.pauses = pauses
    leadership = Leadership(
        settings,
        generation=1,
        source=cluster,
        target=cluster,
        configs=configs,
        reports={},
        terms=lambda: None,
        changed=lambda: None,
    )
    with pytest.raises(CommandRefusedError) as refusal:
        await carry_out(command, leadership, configs, PLACEMENT)
    assert configs.pauses == pauses
    return refusal.value


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (Resume(topics=("orders",)), "orders: not paused by name; paused is the flow as a whole, payments"),
        (
            RestartTask(task="MirrorSourceConnector-7"),
            "there is no task MirrorSourceConnector-7; the flow's tasks: MirrorSourceConnector-0,"
            " MirrorSourceConnector-1",
        ),
    ],
)
async def test_what_is_not_there(tmp_path: Path, command: Command, sentence: str) -> None:
    refusal = await refused(tmp_path, command, Pauses(flow=True, topics=frozenset({"payments"})))
    assert (str(refusal), refusal.is_unknown) == (sentence, True)


async def test_topics_that_were_not_looked_for_yet(tmp_path: Path) -> None:
    refusal = await refused(tmp_path, Pause(topics=("orders",)), Pauses())
    assert str(refusal) == "it is not known yet which topics the flow replicates: looking for topics"
    assert not refusal.is_unknown


async def test_nothing_is_paused(tmp_path: Path) -> None:
    refusal = await refused(tmp_path, Resume(topics=("orders",)), Pauses())
    assert str(refusal) == "orders: not paused by name; paused is nothing"


async def test_a_task_that_nobody_runs_cannot_begin_anew(tmp_path: Path) -> None:
    refusal = await refused(tmp_path, RestartTask(task=str(WAITING)), Pauses())
    assert str(refusal) == "MirrorSourceConnector-1 runs nowhere now: it begins when a node is given it"
    assert not refusal.is_unknown


@pytest.mark.parametrize("command", [Pause(), Resume(), Resume(topics=("t",)), RestartTask(task=str(SLOT)), Refresh()])
async def test_a_leader_that_cannot_write_says_so(tmp_path: Path, command: Command) -> None:
    refusal = await refused(tmp_path, command, Pauses(topics=frozenset({"t"})))
    assert str(refusal).startswith("the command cannot be written down: ")
    assert not refusal.is_unknown
