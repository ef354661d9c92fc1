"""Flows with a query under load: the two Python workers of a lane, the JVM and whole nodes are killed or suspended.

The remote topic has exactly what the query makes of the source: nothing is lost or stale, and with exactly-once nothing
is repeated.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from tests.faults.fault_times import pass_time
from tests.faults.mode import OURS, SHORT_AND_LONG, Mode
from tests.faults.shared_query import PER_SECOND, ROLES, SharedQueryFlow
from tests.lab.cluster import KafkaCluster
from tests.lab.freezing import suspended
from tests.lab.verify import Verdict

SUSPENDED = 18.0  # seconds: longer than the session of a node (6 s), the lease of its lanes, and a query that is stuck
LONG = pytest.mark.long
KILLS = 6  # rounds of the long test, with each role in each

pytestmark = pytest.mark.timeout(900)  # seconds: Sparks start again on busy cores


@pytest.fixture(scope="module", params=OURS, ids=str)
def flow(request: pytest.FixtureRequest, cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> Iterator[SharedQueryFlow]:
    mode: Mode = request.param
    with SharedQueryFlow.running(cluster_a, cluster_b, mode) as running:
        yield running


@pytest.mark.parametrize("rounds", [1, pytest.param(KILLS, marks=LONG)])
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


@pytest.mark.parametrize("flow", SHORT_AND_LONG, indirect=True, ids=str)
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
