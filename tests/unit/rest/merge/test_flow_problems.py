from __future__ import annotations

from mm2.core.lanes.task_states import TaskState
from mm2.node.status.status_model import FlowStatus
from mm2.rest.merge.flow_problems import flow_problems, pause_of
from tests.contract.samples import flow, partition, task, topic


def messages(status: FlowStatus) -> list[str]:
    return [str(problem) for problem in flow_problems(status)]


def test_no_problems() -> None:
    assert messages(flow()) == []


def test_errors_of_parts_are_not_repeated_for_the_flow() -> None:
    status = flow(
        topic("orders", partition(0, state=TaskState.FAILED, error="copy orders-0 offset 17: too large")),
        topic("users", state=TaskState.FAILED, error="not authorized"),
        state=TaskState.FAILED,
        reasons=("no room in the Spark cluster", "topic users: not authorized", "copy orders-0 offset 17: too large"),
    )
    assert messages(status) == [
        "no room in the Spark cluster",
        "topic orders partition 0: copy orders-0 offset 17: too large",
        "topic users: not authorized",
    ]


def test_transient_error_is_listed_without_a_failure() -> None:
    (problem,) = flow_problems(flow(topic("orders", partition(0, error="not the leader: looked up again"))))
    assert problem.state is TaskState.RUNNING


def test_failure_without_a_reason_is_listed() -> None:
    assert messages(flow(topic(state=TaskState.FAILED))) == [
        "topic orders: it failed without a message; see the log of its node"
    ]
    assert messages(flow(topic("orders", partition(2, state=TaskState.FAILED), state=TaskState.FAILED))) == [
        "topic orders partition 2: it failed without a message; see the log of its node"
    ]
    assert messages(flow(tasks=(task(state=TaskState.FAILED),))) == [
        "task MirrorSourceConnector-0 on node-1: it failed without a message; see the log of node node-1"
    ]


def test_a_reason_is_never_empty() -> None:
    assert messages(flow(state=TaskState.WAITING, reasons=("",))) == ["waiting for its first tasks"]
    passing = topic("orders", partition(0, error="not the leader: looked up again"))
    assert messages(flow(passing, state=TaskState.WAITING))[0] == "waiting for its first tasks"
    waits = task(state=TaskState.WAITING)
    assert messages(flow(state=TaskState.WAITING, tasks=(waits,))) == ["waiting for MirrorSourceConnector-0 to start"]
    ended = task(state=TaskState.STOPPED)
    assert messages(flow(state=TaskState.STOPPED, tasks=(ended,))) == ["MirrorSourceConnector-0: STOPPED"]
    assert messages(flow(state=TaskState.STOPPED)) == ["it has no running task"]
    assert messages(flow(state=TaskState.FAILED)) == ["it failed without a message; see the log of its node"]
    assert messages(flow(state=TaskState.DRAINING)) == ["the node is draining: its tasks move to other nodes, or stop"]


def test_partitions_that_explain_a_waiting_flow() -> None:
    nowhere = topic("orders", *(partition(n, state=TaskState.WAITING) for n in range(3)))
    assert messages(flow(nowhere, state=TaskState.WAITING)) == ["topic orders partitions 0-2: not assigned to a node"]
    elsewhere = topic("users", partition(0, state=TaskState.WAITING, node="node-2"))
    assert messages(flow(nowhere, elsewhere, state=TaskState.WAITING)) == [
        "4 partitions of 2 topics (orders, users): not started yet on any node, node-2"
    ]


def test_one_line_for_each_cause() -> None:
    error = "cannot fetch {0}: connection refused"
    both = [
        topic(name, *(partition(n, state=TaskState.WAITING, error=error.format(f"{name}-{n}")) for n in range(3)))
        for name in ("orders", "users")
    ]
    (problem,) = flow_problems(flow(*both, state=TaskState.WAITING))
    text = "6 partitions of 2 topics (orders, users): cannot fetch the partition: connection refused"
    assert str(problem) == text
    assert flow_problems(flow(*both, state=TaskState.WAITING, reasons=(text,))) == [problem]


def test_one_line_for_a_query_that_cannot_run() -> None:
    """F7: though its tasks and partitions have failed, and the node has its own reason about the partitions."""
    reason = "query wrong cannot run: [UNRESOLVED_ROUTINE]"
    failed = {"state": TaskState.FAILED, "error": reason}
    wrong = topic("orders", *(partition(n, **failed) for n in range(3)), state=TaskState.FAILED)
    tasks = tuple(task(id=f"MirrorSourceConnector-{n}", **failed) for n in range(2))
    status = flow(wrong, state=TaskState.FAILED, tasks=tasks, reasons=(f"topic orders partitions 0-2: {reason}",))
    places = "topic orders partitions 0-2 and 2 tasks (MirrorSourceConnector-0, MirrorSourceConnector-1) on node-1"
    assert messages(status) == [f"{places}: {reason}"]


def test_what_an_operator_paused_is_no_problem() -> None:
    paused = flow(state=TaskState.PAUSED)
    assert flow_problems(paused) == []
    unknown = pause_of(paused)
    assert str(unknown) == "paused by an operator; this node does not know since when"
    known = pause_of(flow(paused=("orders",), paused_since={"orders": 1_763_740_800_000}))
    assert str(known) == "paused by an operator since 2025-11-21T16:00:00Z: orders; mm2 resume ends the pause"


def test_waiting_flow_with_a_failure_has_its_reason() -> None:
    failed = topic("orders", partition(0, state=TaskState.FAILED, error="too large"), state=TaskState.FAILED)
    assert messages(flow(failed, state=TaskState.FAILED)) == ["topic orders partition 0: too large"]


def test_waiting_flow_does_not_repeat_the_reason_of_its_task() -> None:
    error_text = "read offset syncs: cluster A is away"
    waiting = task(id="MirrorCheckpointConnector-0", kind="checkpoint", state=TaskState.WAITING, error=error_text)
    (problem,) = flow_problems(flow(state=TaskState.WAITING, reasons=(error_text,), tasks=(task(), waiting)))
    assert (problem.place, problem.state) == ("", TaskState.WAITING)
    assert problem.reason == f"task MirrorCheckpointConnector-0 on node-1: {error_text}"
