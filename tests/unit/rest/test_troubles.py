from __future__ import annotations

from mm2.core.lease import TaskState
from mm2.node.published import FlowStatus
from mm2.rest.shapes import FlowShape
from mm2.rest.troubles import troubles
from tests.contract.samples import flow, partition, task, topic


def said(status: FlowStatus) -> list[str]:
    assert troubles(status) == troubles(FlowShape.of(status))
    return [str(trouble) for trouble in troubles(status)]


def test_nothing_is_wrong() -> None:
    assert said(flow()) == []


def test_a_flow_does_not_repeat_what_is_said_at_its_place() -> None:
    status = flow(
        topic("orders", partition(0, state=TaskState.FAILED, error="copy orders-0 offset 17: too large")),
        topic("users", state=TaskState.FAILED, error="not authorized"),
        state=TaskState.FAILED,
        reasons=("no room in the Spark cluster", "topic users: not authorized", "copy orders-0 offset 17: too large"),
    )
    assert said(status) == [
        "no room in the Spark cluster",
        "topic orders partition 0: copy orders-0 offset 17: too large",
        "topic users: not authorized",
    ]


def test_an_error_that_passes_is_told_without_a_failure() -> None:
    (trouble,) = troubles(flow(topic("orders", partition(0, error="not the leader: looked up again"))))
    assert trouble.state is TaskState.RUNNING


def test_a_failure_without_words_is_still_told() -> None:
    assert said(flow(topic(state=TaskState.FAILED))) == ["topic orders: no reason given"]
    assert said(flow(topic("orders", partition(2, state=TaskState.FAILED), state=TaskState.FAILED))) == [
        "topic orders partition 2: no reason given"
    ]
    assert said(flow(tasks=(task(state=TaskState.FAILED),))) == [
        "task MirrorSourceConnector-0 on node-1: no reason given"
    ]


def test_a_flow_that_waits_without_a_word_is_told() -> None:
    assert said(flow(state=TaskState.WAITING)) == ["no reason given"]
    passing = topic("orders", partition(0, error="not the leader: looked up again"))
    assert said(flow(passing, state=TaskState.WAITING))[0] == "no reason given"
    failed = topic("orders", partition(0, state=TaskState.FAILED, error="too large"), state=TaskState.FAILED)
    assert said(flow(failed, state=TaskState.FAILED)) == ["topic orders partition 0: too large"]


def test_a_flow_that_waits_for_one_of_its_tasks_says_so_once() -> None:
    words = "read offset syncs: cluster A is away"
    waiting = task(id="MirrorCheckpointConnector-0", kind="checkpoint", state=TaskState.WAITING, error=words)
    (trouble,) = troubles(flow(state=TaskState.WAITING, reasons=(words,), tasks=(task(), waiting)))
    assert (trouble.place, trouble.state) == ("", TaskState.WAITING)
    assert trouble.words == f"task MirrorCheckpointConnector-0 on node-1: {words}"
