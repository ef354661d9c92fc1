"""Source tasks whose query Spark rejects, and partitions that no lane can copy, in the status of their node."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from mm2.core.lanes.engine_orders import EngineReport, EngineRole, LaneEnd
from mm2.core.lanes.fetch_shares import FetchShares
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import TopicPartition
from mm2.node.engine.lane_board import LaneBoard
from mm2.node.engine.managed_lane import LONGEST_RESTART_S
from mm2.node.flow.task_runner import TaskContext
from mm2.node.source.assigned_source_task import AssignedSourceTask
from mm2.node.source.source_task_leases import SourceTaskLeases
from mm2.node.source.source_task_runner import SourceTaskRunner
from mm2.node.store.config_store import ConfigStore
from tests.lab.tasks import task_context, unconnected_cluster
from tests.unit.config import files
from tests.unit.node.engine.lane_boards import carried_out, ended, grant, lane_query, source_task_lease, starts, token

MASK = lane_query("mask")
MESSAGE = "query mask cannot run: no function fo"
COPIED, LEFT = TopicPartition("orders", 0), TopicPartition("other", 0)
WAITS = (TaskState.WAITING, "not for this query")


def new_context(directory: Path) -> TaskContext:
    settings, cluster = files.flow(directory), unconnected_cluster()
    configs = ConfigStore(settings, cluster, on_change=lambda: None, on_command=lambda _: None)
    return task_context(settings, configs, cluster, node_id="one")


def reject(board: LaneBoard, lane: int) -> None:
    ended(board, lane, "no function fo", refused=True)


async def test_source_tasks_with_a_rejected_query_are_failed_and_others_are_not(tmp_path: Path) -> None:
    context = new_context(tmp_path)
    board, runner = context.lease_service.board, SourceTaskRunner(context, lambda: None)
    runner.assign({0: 1, 1: 1}, "m-1")
    board.put(source_task_lease(0))
    board.put(source_task_lease(1, query=MASK))
    assert [(one.state, one.error) for one in runner.status()] == [(TaskState.WAITING, None)] * 2
    reject(board, 1)
    assert [(one.state, one.error) for one in runner.status()] == [
        (TaskState.WAITING, None),
        (TaskState.FAILED, MESSAGE),
    ]


async def test_the_error_of_a_lane_is_logged_and_shown_after_it_has_restarted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    context = new_context(tmp_path)
    service, runner = context.lease_service, SourceTaskRunner(context, lambda: None)
    runner.assign({1: 1}, "m-1")
    service.put(source_task_lease(1, query=MASK))
    (lane,) = (start.lane for start in starts(service.board, 0.0))
    end = LaneEnd(lane=lane, token=token(service.board, lane), error="stuck")
    report = EngineReport(version=-1, pid=1, jvm_pid=2, spark_ui=None, ended=(end,))
    await service.engine(EngineRole.QUERIES, report, 0.0)
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
        f"lane {lane} failed; restarting: stuck"
    ]
    assert (runner.status()[0].error, runner.reasons()) == ("stuck", [])
    later = time.monotonic() + LONGEST_RESTART_S
    carried_out(service.board, lane, grant(service.board, lane, later), 1, now=later)
    assert runner.reasons() == [f"lane {lane} failed: stuck"]


async def test_shares_follow_the_limit_in_the_file_without_a_restart(tmp_path: Path) -> None:
    """A reload replaces the settings of the context; the lanes ask for the share once a second."""
    context = new_context(tmp_path)
    runner = SourceTaskRunner(context, lambda: None)
    runner.assign({0: 1, 1: 1}, "m-1")
    assert (runner.fetch_share(0), runner.fetch_shares) == (None, 0)
    context.settings = files.flow(tmp_path, "mm2.max.bytes.per.second = 2000000\n")
    context.configs.fetch_shares = FetchShares(1_000_000, {0: 100_000, 1: 300_000, 2: 600_000})
    assert (runner.fetch_share(0), runner.fetch_shares) == (200_000, 800_000)
    context.settings = files.flow(tmp_path)
    assert (runner.fetch_share(0), runner.fetch_shares) == (None, 0)


def test_partitions_that_no_lane_can_copy(tmp_path: Path) -> None:
    context = new_context(tmp_path)
    leases = SourceTaskLeases(context, unconnected_cluster())
    run = AssignedSourceTask(source_task=1, epoch=1, leased=frozenset({COPIED}), excluded={LEFT: WAITS})
    assert leases.held_back(run) is run.excluded
    context.lease_service.put(source_task_lease(1, query=MASK))
    assert leases.held_back(run) is run.excluded
    reject(context.lease_service.board, 1)
    assert leases.held_back(run) == {COPIED: (TaskState.FAILED, MESSAGE), LEFT: WAITS}
