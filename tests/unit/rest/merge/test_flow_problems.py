from __future__ import annotations

from mm2.core.lanes.task_states import TaskState
from mm2.node.status.status_model import FlowStatus
from mm2.rest.merge.flow_problems import flow_problems
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
    assert messages(flow(topic(state=TaskState.FAILED))) == ["topic orders: no reason given"]
    assert messages(flow(topic("orders", partition(2, state=TaskState.FAILED), state=TaskState.FAILED))) == [
        "topic orders partition 2: no reason given"
    ]
    assert messages(flow(tasks=(task(state=TaskState.FAILED),))) == [
        "task MirrorSourceConnector-0 on node-1: no reason given"
    ]


def test_waiting_flow_without_a_reason_is_listed() -> None:
    assert messages(flow(state=TaskState.WAITING)) == ["no reason given"]
    passing = topic("orders", partition(0, error="not the leader: looked up again"))
    assert messages(flow(passing, state=TaskState.WAITING))[0] == "no reason given"
    failed = topic("orders", partition(0, state=TaskState.FAILED, error="too large"), state=TaskState.FAILED)
    assert messages(flow(failed, state=TaskState.FAILED)) == ["topic orders partition 0: too large"]


def test_waiting_flow_does_not_repeat_the_reason_of_its_task() -> None:
    error_text = "read offset syncs: cluster A is away"
    waiting = task(id="MirrorCheckpointConnector-0", kind="checkpoint", state=TaskState.WAITING, error=error_text)
    (problem,) = flow_problems(flow(state=TaskState.WAITING, reasons=(error_text,), tasks=(task(), waiting)))
    assert (problem.place, problem.state) == ("", TaskState.WAITING)
    assert problem.reason == f"task MirrorCheckpointConnector-0 on node-1: {error_text}"
