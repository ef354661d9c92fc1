"""Lines about changes of state. The letters are those of `mm2.program.state_changes`."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from mm2.core.lanes.task_states import TaskState
from mm2.node.status.status_model import ClusterStatus, FlowStatus
from mm2.program.state_changes import LINES, StateChanges
from tests.contract.samples import flow, heartbeat_flow, partition, task, topic

DOWN = "cannot discover topics: cluster A is unreachable"
RUNNING = flow()
WAITING = flow(state=TaskState.WAITING, reasons=(DOWN,))
FAILED, PAUSED = TaskState.FAILED, TaskState.PAUSED


def lines(*looks: tuple[float, FlowStatus]) -> list[tuple[str, str]]:
    """Return levels and texts of all lines after these looks."""
    changes = StateChanges()
    found = [line for at, status in looks for line in changes.take([status], at)]
    return [(logging.getLevelName(line.level), line.text) for line in found]


def of_orders(states: Iterable[TaskState], error: str | None = None) -> FlowStatus:
    parts = [
        partition(n, state=state, error=error if state is not TaskState.RUNNING else None)
        for n, state in enumerate(states)
    ]
    failed = any(one is FAILED for one in states)
    return flow(topic("orders", *parts), state=FAILED if failed else TaskState.RUNNING)


def test_nothing_is_logged_while_nothing_changes() -> None:
    assert lines(*((float(n), RUNNING) for n in range(100))) == []


def test_a_flow_that_waits_and_recovers() -> None:
    looks = [(0.0, RUNNING), (10.0, WAITING), (13.0, WAITING), (50.0, RUNNING), (53.0, RUNNING), (60.0, RUNNING)]
    assert lines(*looks) == [
        ("WARNING", f"A->B is WAITING (was RUNNING for 10 s): {DOWN}"),
        ("INFO", f"A->B is RUNNING again after 40 s WAITING ({DOWN})"),
    ]


def test_short_changes_are_not_logged() -> None:
    """A."""
    assert lines((0.0, RUNNING), (10.0, WAITING), (12.0, RUNNING), (20.0, RUNNING)) == []


def test_a_healthy_start_has_no_warning() -> None:
    """B."""
    starting = replace(WAITING, reasons=("the Spark engine is starting",), tasks=(task(state=TaskState.WAITING),))
    assert lines((0.0, starting), (14.0, RUNNING), (17.0, RUNNING)) == [
        ("INFO", "A->B is RUNNING after 14 s"),
        ("INFO", "A->B: task MirrorSourceConnector-0 on node-1 is RUNNING after 14 s"),
    ]


def test_a_flow_that_does_not_start() -> None:
    """B."""
    assert lines((0.0, WAITING), (59.0, WAITING), (61.0, WAITING), (90.0, WAITING)) == [
        ("WARNING", f"A->B has not started for 61 s: {DOWN}")
    ]


def test_one_line_for_five_thousand_partitions() -> None:
    def all_of(state: TaskState, error: str | None) -> FlowStatus:
        topics = [topic(f"t{n}", *(partition(p, state=state, error=error) for p in range(100))) for n in range(50)]
        return flow(*topics, state=state, reasons=() if error is None else (DOWN,))

    waiting = all_of(TaskState.WAITING, DOWN)
    found = lines((0.0, all_of(TaskState.RUNNING, None)), (10.0, waiting), (13.0, waiting))
    assert [level for level, _ in found] == ["WARNING", "WARNING"]
    named = "t0, t1, t2, t3, t4 and 45 more"
    assert found[1][1] == f"A->B: 5,000 partitions of 50 topics ({named}) are WAITING (was RUNNING for 10 s): {DOWN}"


def test_a_failed_partition_is_an_error() -> None:
    error = "offset 17: larger than max.message.bytes of A.orders"
    failed = of_orders([TaskState.RUNNING, FAILED], error)
    healthy = of_orders([TaskState.RUNNING] * 2)
    found = lines((0.0, healthy), (5.0, failed), (8.0, failed), (40.0, healthy), (43.0, healthy))
    place = "A->B: topic orders partition 1"
    assert found == [
        ("ERROR", f"A->B is FAILED (was RUNNING for 5 s): topic orders partition 1: {error}"),
        ("ERROR", f"{place} is FAILED (was RUNNING for 5 s): {error}"),
        ("INFO", f"A->B is RUNNING again after 35 s FAILED (topic orders partition 1: {error})"),
        ("INFO", f"{place} is RUNNING again after 35 s FAILED ({error})"),
    ]


def test_what_has_failed_from_the_start() -> None:
    denied = topic("users", state=FAILED, error="remote topic A.users: not authorized")
    broken = flow(denied, state=FAILED, tasks=(task(state=FAILED, error=None),))
    assert lines((0.0, broken), (3.0, broken)) == [
        (
            "ERROR",
            "A->B is FAILED: task MirrorSourceConnector-0 on node-1: it failed without a message; see the log of node"
            " node-1 (and 1 more: see /health)",
        ),
        (
            "ERROR",
            "A->B: task MirrorSourceConnector-0 on node-1 is FAILED: it failed without a message; see the log of node"
            " node-1",
        ),
        ("ERROR", "A->B: topic users is FAILED: remote topic A.users: not authorized"),
    ]


def test_one_line_for_a_query_that_cannot_run() -> None:
    """F7: beside that of the flow, which has changed its state, too."""
    reason = "query wrong cannot run: [UNRESOLVED_ROUTINE]"
    tasks = [task(id=f"MirrorSourceConnector-{n}", state=FAILED, error=reason) for n in range(2)]
    wrong = topic("orders", *(partition(n, state=FAILED, error=reason) for n in range(3)), state=FAILED)
    broken = flow(wrong, state=FAILED, tasks=tuple(tasks))
    places = "topic orders partitions 0-2 and 2 tasks (MirrorSourceConnector-0, MirrorSourceConnector-1) on node-1"
    assert lines((0.0, broken), (3.0, broken)) == [
        ("ERROR", f"A->B is FAILED: {places}: {reason}"),
        ("ERROR", f"A->B: {places} are FAILED: {reason}"),
    ]


def test_pauses() -> None:
    at = {"orders": 1_763_740_800_000}
    part = flow(topic("orders", partition(0, state=PAUSED)), topic("users"), paused=("orders",), paused_since=at)
    healthy = flow(topic("orders", partition(0)), topic("users"))
    assert lines((0.0, healthy), (5.0, part), (8.0, part), (3_605.0, healthy), (3_608.0, healthy)) == [
        ("INFO", "A->B: topic orders partition 0 is PAUSED (was RUNNING for 5 s)"),
        ("INFO", "A->B: topic orders partition 0 is RUNNING again after 1 h 0 min PAUSED"),
    ]
    whole = flow(state=PAUSED, paused=("",), paused_since={"": 1_763_740_800_000})
    found = lines((0.0, RUNNING), (5.0, whole), (8.0, whole))
    since = "since 2025-11-21T16:00:00Z; mm2 resume ends the pause"
    assert found == [("INFO", f"A->B is PAUSED (was RUNNING for 5 s): the whole flow is paused by an operator {since}")]


def test_a_task_that_only_moves_is_no_warning() -> None:
    moving = flow(tasks=(task(), task(id="MirrorHeartbeatConnector-0", state=TaskState.WAITING, error="starting")))
    moving = replace(moving, tasks=(moving.tasks[0], replace(moving.tasks[1], only_moves=True)))
    ((level, text),) = lines((0.0, RUNNING), (5.0, moving), (8.0, moving))
    assert (level, text) == (
        "INFO",
        "A->B: task MirrorHeartbeatConnector-0 on node-1 is WAITING (was RUNNING for 5 s): starting",
    )


def test_a_flow_that_flaps_does_not_fill_the_log() -> None:
    """C."""
    found = lines(*((float(n), WAITING if n % 10 < 5 else RUNNING) for n in range(3_600)))
    assert LINES < len(found) <= LINES + 3_600 / 15 + 1
    assert "more changes of state are not in the log" in found[-1][1] or "more changes" in found[-2][1]


def test_partitions_of_other_nodes_are_forgotten() -> None:
    both = flow(topic("orders", partition(0), partition(1)))
    one = flow(topic("orders", partition(0)))
    assert lines((0.0, both), (5.0, one), (10.0, both), (20.0, both)) == []


def test_a_cluster_that_comes_back_has_a_line() -> None:
    def cluster(*, reachable: bool | None, since: int | None, error: str | None = None) -> ClusterStatus:
        return ClusterStatus(alias="A", reachable=reachable, since=since, answered=None, error=error)

    changes = StateChanges()
    looks = [
        cluster(reachable=None, since=None),
        cluster(reachable=True, since=10_000),
        cluster(reachable=False, since=20_000, error="connection refused"),
        cluster(reachable=False, since=20_000, error="timed out"),
        cluster(reachable=True, since=115_000),
        cluster(reachable=True, since=115_000),
    ]
    found = [(line.level, line.text) for look in looks for line in changes.take_clusters([look])]
    assert found == [
        (logging.WARNING, "cluster A does not answer: connection refused"),
        (logging.INFO, "cluster A answers again after 95 s"),
    ]


def test_flows_that_are_added_and_removed() -> None:
    changes = StateChanges()
    assert changes.take([RUNNING, heartbeat_flow()], 0.0) == []
    assert changes.take([heartbeat_flow()], 5.0) == []
    assert changes.take([WAITING, heartbeat_flow()], 10.0) == []
    assert changes.take([WAITING], 14.0) == [], "it has not run since it was added"
