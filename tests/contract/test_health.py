from __future__ import annotations

import pytest

from mm2.core.lanes.task_states import TaskState
from mm2.node.status.status_model import FlowStatus
from tests.contract.conftest import Serve
from tests.contract.samples import flow, heartbeat_flow, node, partition, task, topic


async def test_live_is_200_regardless_of_flow_states(serve: Serve) -> None:
    client = await serve(node(flow(state=TaskState.FAILED)))
    answer = await client.get("/health/live")
    assert (answer.status_code, answer.json()) == (200, {"status": "UP", "reasons": []})


async def test_health_is_200_if_all_enabled_flows_are_running(serve: Serve) -> None:
    answer = await (await serve(node())).get("/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "UP", "reasons": []})


UNHEALTHY = {
    "flow waits": (
        flow(state=TaskState.WAITING, leader=None, reasons=("a Java MirrorMaker or another tool holds group A-mm2",)),
        "A->B is WAITING: a Java MirrorMaker or another tool holds group A-mm2",
    ),
    "flow without a reason": (flow(state=TaskState.STOPPED), "A->B is STOPPED: no reason given"),
    "task": (
        flow(tasks=(task(state=TaskState.FAILED, error="lane 0 does not start"),)),
        "A->B: task MirrorSourceConnector-0 on node-1 is FAILED: lane 0 does not start",
    ),
    "topic": (
        flow(topic(state=TaskState.FAILED, error="remote topic A.orders: not authorized to create it")),
        "A->B: topic orders is FAILED: remote topic A.orders: not authorized to create it",
    ),
    "partition": (
        flow(
            topic(
                "orders",
                partition(0),
                partition(3, state=TaskState.FAILED, error="offset 17: larger than max.message.bytes of A.orders"),
                state=TaskState.FAILED,
            )
        ),
        "A->B: topic orders partition 3 is FAILED: offset 17: larger than max.message.bytes of A.orders",
    ),
}


@pytest.mark.parametrize(("status", "reason"), UNHEALTHY.values(), ids=UNHEALTHY)
async def test_health_is_503_with_the_failed_part(serve: Serve, status: FlowStatus, reason: str) -> None:
    answer = await (await serve(node(status, heartbeat_flow()))).get("/health")
    assert (answer.status_code, answer.json()) == (503, {"status": "DOWN", "reasons": [reason]})


async def test_heartbeat_only_flows_are_listed_but_do_not_affect_health(serve: Serve) -> None:
    waiting = heartbeat_flow(state=TaskState.WAITING, reasons=("cluster A is unreachable",))
    answer = await (await serve(node(flow(), waiting))).get("/health")
    assert answer.status_code == 200
    assert answer.json() == {
        "status": "UP",
        "reasons": ["B->A is WAITING: cluster A is unreachable (heartbeats only: does not affect health)"],
    }


async def test_warnings_of_running_flows_are_listed(serve: Serve) -> None:
    answer = await (await serve(node(flow(reasons=("no permission for transactions: plain writes",))))).get("/health")
    assert answer.status_code == 200
    assert answer.json()["reasons"] == ["A->B: no permission for transactions: plain writes"]


async def test_one_paused_topic_does_not_affect_health(serve: Serve) -> None:
    resting = topic("orders", partition(0, state=TaskState.PAUSED), state=TaskState.PAUSED)
    status = flow(resting, topic("users"), paused=("orders",))
    answer = await (await serve(node(status))).get("/health")
    reason = "A->B: paused by an operator: orders; mm2 resume ends the pause"
    assert (answer.status_code, answer.json()) == (200, {"status": "UP", "reasons": [reason]})


async def test_a_paused_topic_is_no_reason_for_another_state(serve: Serve) -> None:
    status = flow(state=TaskState.WAITING, reasons=("cluster A is unreachable",), paused=("orders",))
    answer = await (await serve(node(status))).get("/health")
    pause = "A->B: paused by an operator: orders; mm2 resume ends the pause"
    assert answer.status_code == 503
    assert answer.json()["reasons"] == ["A->B is WAITING: cluster A is unreachable", pause]


async def test_a_paused_flow_has_its_pause_as_reason(serve: Serve) -> None:
    """Not whatever else there is to report."""
    differs = "A->B: n2:8083 has a different configuration than leader n1:8083"
    answer = await (await serve(node(flow(state=TaskState.PAUSED, reasons=(differs,), paused=("",))))).get("/health")
    pause = "A->B is PAUSED: the whole flow is paused by an operator; mm2 resume ends the pause"
    assert answer.json()["reasons"] == [pause, f"A->B: {differs}"]


async def test_long_lists_of_problems_are_truncated(serve: Serve) -> None:
    failed = [partition(number, state=TaskState.FAILED, error="not the leader") for number in range(5_000)]
    reasons = (await (await serve(node(flow(topic("orders", *failed))))).get("/health")).json()["reasons"]
    assert len(reasons) == 101
    assert reasons[-1] == "and 4900 more: see /flows"
