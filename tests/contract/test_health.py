from __future__ import annotations

from dataclasses import replace

import pytest

from mm2.core.lanes.task_states import TaskState
from mm2.node.status.status_model import EngineStatus, FlowStatus, NodeStatus
from mm2.rest.merge.problem_watch import ProblemWatch
from tests.contract.conftest import Serve, ServeWatched
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
    "flow without a reason": (flow(state=TaskState.STOPPED), "A->B is STOPPED: it has no running task"),
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


async def test_a_paused_flow_is_no_alarm(serve: Serve) -> None:
    """Its reason is the pause, not whatever else there is to report."""
    differs = "n2:8083 has a different configuration than leader n1:8083"
    paused = flow(state=TaskState.PAUSED, reasons=(differs,), paused=("",), paused_since={"": 1_763_740_800_000})
    answer = await (await serve(node(paused))).get("/health")
    pause = "A->B: the whole flow is paused by an operator since 2025-11-21T16:00:00Z; mm2 resume ends the pause"
    assert (answer.status_code, answer.json()) == (200, {"status": "UP", "reasons": [f"A->B: {differs}", pause]})


async def test_a_paused_flow_with_a_failed_task_is_an_alarm(serve: Serve) -> None:
    failed = task(state=TaskState.FAILED, error="lane 0 does not start")
    answer = await (await serve(node(flow(state=TaskState.PAUSED, tasks=(failed,), paused=("",))))).get("/health")
    assert answer.status_code == 503


async def test_one_line_for_each_cause(serve: Serve) -> None:
    failed = [partition(number, state=TaskState.FAILED, error="not the leader") for number in range(5_000)]
    reasons = (await (await serve(node(flow(topic("orders", *failed))))).get("/health")).json()["reasons"]
    assert reasons == ["A->B: topic orders partitions 0-4999 are FAILED: not the leader"]


async def test_long_lists_of_problems_are_truncated(serve: Serve) -> None:
    failed = [partition(number, state=TaskState.FAILED, error=f"offset {number}: too large") for number in range(5_000)]
    reasons = (await (await serve(node(flow(topic("orders", *failed))))).get("/health")).json()["reasons"]
    assert len(reasons) == 101
    assert reasons[-1] == "and 4900 more: see /flows"


# -- time

DOWN = "cluster A is unreachable"
WAITS = flow(state=TaskState.WAITING, reasons=(DOWN,))
EPOCH = 1_763_740_800.0  # 2025-11-21T16:00:00Z


class Watched:
    """A node that `ProblemWatch` observes, with a clock of its own."""

    def __init__(self, limit_s: float = 30.0) -> None:
        self.now = 0.0
        self.published = node()
        self.watch = ProblemWatch(limit_s=limit_s, clock=lambda: self.now, wall_clock=lambda: EPOCH + self.now)

    def until(self, now: float, *flows: FlowStatus) -> None:
        """Let these be the flows until ``now``, observed every second."""
        self.published = node(*flows)
        while self.now < now:
            self.watch.observe(self.published)
            self.now += 1.0

    async def health(self, serve_watched: ServeWatched) -> tuple[int, list[str]]:
        answer = await (await serve_watched(lambda: self.published, lambda: self.watch.times)).get("/health")
        return answer.status_code, answer.json()["reasons"]


async def test_a_problem_is_listed_at_once_and_is_an_alarm_after_30_s(serve_watched: ServeWatched) -> None:
    watched = Watched()
    watched.until(10, flow())
    watched.published = node(WAITS)
    assert await watched.health(serve_watched) == (200, [f"A->B is WAITING: {DOWN}"]), "not observed yet"
    watched.until(15, WAITS)
    reasons = [f"A->B is WAITING since 2025-11-21T16:00:10Z: {DOWN}"]
    assert await watched.health(serve_watched) == (200, reasons)
    watched.until(39, WAITS)
    assert await watched.health(serve_watched) == (200, reasons)
    watched.until(42, WAITS)
    assert await watched.health(serve_watched) == (503, reasons)
    watched.until(44, flow())
    assert await watched.health(serve_watched) == (200, [])
    watched.until(46, WAITS)
    assert await watched.health(serve_watched) == (503, reasons), "it has returned"


async def test_the_limit_is_a_value(serve_watched: ServeWatched) -> None:
    watched = Watched(limit_s=2)
    watched.until(5, flow())
    watched.until(8, WAITS)
    assert (await watched.health(serve_watched))[0] == 503


async def test_a_flow_that_has_not_run_yet_is_an_alarm(serve_watched: ServeWatched) -> None:
    """Nothing is UP that was not seen to run."""
    watched = Watched()
    watched.until(2, WAITS)
    assert (await watched.health(serve_watched))[0] == 503
    watched.until(12, flow())
    watched.until(14, WAITS)
    assert (await watched.health(serve_watched))[0] == 200


async def test_other_flows_are_not_counted(serve_watched: ServeWatched) -> None:
    """A problem of one flow does not make a short one of another flow an alarm."""
    watched = Watched()
    other = replace(flow(), flow="A->C", target="C")
    watched.until(5, flow(), other)
    watched.until(50, heartbeat_flow(state=TaskState.WAITING, reasons=(DOWN,)), other)
    failed = replace(other, tasks=(task(state=TaskState.FAILED, error="lane 0 does not start"),))
    watched.until(53, heartbeat_flow(state=TaskState.WAITING, reasons=(DOWN,)), failed)
    code, reasons = await watched.health(serve_watched)
    assert code == 200
    task_line = "A->C: task MirrorSourceConnector-0 on node-1 is FAILED since 2025-11-21T16:00:50Z"
    assert reasons[0] == f"{task_line}: lane 0 does not start"


# -- readiness

STARTING = EngineStatus(
    engine="main", error="the Spark engine is starting", spark_ui=None, pid=None, jvm_pid=None, memory_bytes=None
)
NOT_READY = {
    "about to join": (node(flow(is_member=False)), ["A->B: about to join the flow"]),
    "engine": (
        node(flow(is_member=True), engines=(STARTING,)),
        ["engine: the Spark engine is starting"],
    ),
    "draining": (node(flow(is_member=True), draining=True), ["the node is draining"]),
}
READY = {
    "member": (node(flow(is_member=True), heartbeat_flow()), []),
    "cluster down": (
        node(flow(state=TaskState.WAITING, not_member=DOWN, reasons=(DOWN,))),
        [f"A->B: not a member: {DOWN}"],
    ),
    "cluster down later": (node(replace(WAITS, is_member=True)), []),
    "paused": (node(flow(state=TaskState.PAUSED, is_member=True, paused=("",))), []),
    "failed": (node(flow(topic(state=TaskState.FAILED, error="denied"), is_member=True)), []),
}


@pytest.mark.parametrize(("status", "reasons"), NOT_READY.values(), ids=NOT_READY)
async def test_not_ready(serve: Serve, status: NodeStatus, reasons: list[str]) -> None:
    answer = await (await serve(status)).get("/health/ready")
    assert (answer.status_code, answer.json()) == (503, {"status": "DOWN", "reasons": reasons})


@pytest.mark.parametrize(("status", "reasons"), READY.values(), ids=READY)
async def test_ready(serve: Serve, status: NodeStatus, reasons: list[str]) -> None:
    """Neither clusters nor pauses make a node unready."""
    answer = await (await serve(status)).get("/health/ready")
    assert (answer.status_code, answer.json()) == (200, {"status": "UP", "reasons": reasons})
