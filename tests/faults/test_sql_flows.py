"""Flows with a query under load: the two Python workers of a lane, the JVM and whole nodes are killed or suspended.

The remote topic has exactly what the query makes of the source: nothing is lost or stale, and with exactly-once nothing
is repeated.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import psutil
import pytest

from tests.faults.fault_times import pass_time
from tests.faults.mode import EXACTLY_ONCE, OURS, Mode
from tests.faults.shared_query import PER_SECOND, RESUMES, ROLES, SharedQueryFlow
from tests.lab.cluster import KafkaCluster
from tests.lab.freezing import suspended
from tests.lab.node import Node
from tests.lab.verify import Verdict
from tests.lab.waiting import wait_until

SUSPENDED = 18.0  # seconds: longer than the session of a node (6 s), the lease of its lanes, and a query that is stuck
KILLS = 6  # rounds of the long test, with each role in each

pytestmark = pytest.mark.timeout(900)  # seconds: Sparks start again on busy cores


@pytest.fixture(scope="module", params=OURS, ids=str)
def flow(request: pytest.FixtureRequest, cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> Iterator[SharedQueryFlow]:
    mode: Mode = request.param
    with SharedQueryFlow.running(cluster_a, cluster_b, mode) as running:
        yield running


@pytest.mark.long  # tests/integration/queries/test_fatal_records.py
def test_workers_of_one_node_are_killed_and_suspended(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    """With exactly-once. They resume when their lease has ended, and another lane has taken over. A killed runner is a
    killed lane, as in test_each_kind.py."""
    with SharedQueryFlow.running(cluster_a, cluster_b, EXACTLY_ONCE, names=("one",)) as flow:
        node = flow.nodes["one"]
        topic = flow.create_topic()
        with flow.load(topic) as load:
            flow.wait_for_copies(topic, PER_SECOND)
            kill_feeder(flow, node)
            flow.wait_for_copies(topic, PER_SECOND)
            with suspended(workers_of(flow, node)):
                flow.wait_for_copies(topic, PER_SECOND)  # by the lane that takes over
            flow.wait_for_copies(topic, PER_SECOND)
            load.stop()
        assert flow.verify(topic).stale == ()


def kill_feeder(flow: SharedQueryFlow, node: Node) -> None:
    """Kill the feeder of the only lane, and wait until the lane has ended."""
    workers = workers_of(flow, node)
    for process in flow.running_processes(node, "feeder"):
        process.kill()
    wait_until(lambda: not any(one.is_running() for one in workers), RESUMES, "the lane without a feeder has ended")


def workers_of(flow: SharedQueryFlow, node: Node) -> list[psutil.Process]:
    """Return the processes of the only lane of a node, once it runs."""
    return [one for role in ("runner", "feeder") for one in flow.running_processes(node, role)]


@pytest.mark.long  # the test above
@pytest.mark.parametrize("rounds", [1, KILLS])
@pytest.mark.fault_row("SQL flow killed")
def test_killing_each_process(
    flow: SharedQueryFlow, rng: random.Random, rounds: int, record_row: Callable[[Verdict], None]
) -> None:
    topic = flow.create_topic()
    with flow.load(topic) as load:
        flow.nodes.wait_shared()
        for _ in range(rounds):
            roles = rng.sample(sorted(ROLES), len(ROLES))
            print("killed:", ", ".join(roles))
            for role in roles:
                flow.wait_for_copies(topic, rng.randrange(PER_SECOND // 10, PER_SECOND))
                flow.kill(rng, topic, role)
        flow.wait_for_copies(topic, PER_SECOND)
        load.stop()
    record_row(flow.verify(topic))


@pytest.mark.long  # test_workers_of_one_node_are_killed_and_suspended
def test_suspended_workers_write_nothing_behind_their_successors(flow: SharedQueryFlow) -> None:
    """The runner on one node and the feeder on the other are suspended for longer than their leases."""
    suspend(flow, ("runner", "feeder"))


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.long
def test_suspended_processes_of_a_node(flow: SharedQueryFlow, role: str) -> None:
    suspend(flow, (role,), times=2)


def suspend(flow: SharedQueryFlow, roles: tuple[str, ...], *, times: int = 1) -> None:
    """Suspend the first role on the leader and the second on the follower, and check the copy."""
    topic = flow.create_topic()
    with flow.load(topic) as load:
        for _ in range(times):
            nodes = flow.nodes.roles()
            flow.wait_for_copies(topic, PER_SECOND)
            processes = [
                one for role, node in zip(roles, nodes, strict=False) for one in flow.running_processes(node, role)
            ]
            with suspended(processes):
                pass_time(SUSPENDED)
            flow.nodes.wait_shared()
        flow.wait_for_copies(topic, PER_SECOND)
        load.stop()
    assert flow.verify(topic).stale == ()
