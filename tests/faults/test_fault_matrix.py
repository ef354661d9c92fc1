"""Every fault in every topology, MM2_SEEDS times: nothing is lost, nothing is stale, and records arrive again.

A seed decides the victim, the moment and the duration. Each topology is started once; its faults follow one another,
each under load on its own topic. The table at the end of the run has the longest silence of a partition and the
repeated records.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator

import pytest

from tests.faults.fault_scenarios import FAULTS, Fault, pass_time
from tests.faults.fault_stage import Stage, Topology, running
from tests.faults.fault_table import Round
from tests.faults.node_group import COPIED, FLOW, PARTITIONS, PER_SECOND
from tests.faults.observer import REPORTED_WITHIN
from tests.lab.arrivals import Arrivals
from tests.lab.fixtures import unique_name
from tests.lab.history import read_topic
from tests.lab.load import Load
from tests.lab.verify import Verdict, compare
from tests.lab.waiting import GaveUp, wait_until

SEEDS = int(os.environ.get("MM2_SEEDS", "20"))
TOPOLOGIES = (
    Topology(nodes=2, brokers=1, lanes=2),
    Topology(nodes=2, brokers=1, election="zookeeper"),
    Topology(nodes=3, brokers=3),
    Topology(nodes=5, brokers=3, tasks_max=5, source_tasks_only=True),
)
FORGOTTEN = 60.0  # seconds until a deleted topic is not replicated any more

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]  # seconds: five Sparks start, or a fault and its deadlines


@pytest.fixture(scope="module")
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    with running(request.param) as stage:
        yield stage


@pytest.fixture
def topic(stage: Stage) -> Iterator[str]:
    """A topic of this round, deleted afterwards: idle partitions of earlier rounds would cost more and more."""
    stage.wait_recovered()
    name = stage.group.source.create_topic(unique_name("t"), PARTITIONS)
    yield name
    for cluster, one in zip(stage.clusters, (name, f"A.{name}"), strict=True):
        cluster.delete_topic(one)
    nodes = stage.group.by_name.values()
    wait_until(lambda: not any(node.topic(FLOW, name) for node in nodes), FORGOTTEN, f"{name} is gone from /flows")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda one: one.name)
@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("stage", TOPOLOGIES, indirect=True, ids=str, scope="module")
def test_fault_loses_nothing(
    stage: Stage,
    topic: str,
    fault: Fault,
    seed: int,
    rng: random.Random,
    record_property: Callable[[str, object], None],
) -> None:
    group = stage.group
    with (
        Arrivals(group.target, f"A.{topic}", partitions=PARTITIONS) as arrivals,
        Load(group.source, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load,
    ):
        arrivals.wait_for_all(time.monotonic(), COPIED)
        load.wait_for_more(rng.randrange(PER_SECOND // 10, 3 * PER_SECOND))
        began = time.monotonic()
        done = fault.strike(stage, rng)
        pass_time(REPORTED_WITHIN)  # until then a lane may still copy that has lost its engine
        stage.wait_recovered()  # under load: tasks move back to their nodes
        arrivals.wait_for_all(time.monotonic(), COPIED)
        recovered = time.monotonic() - began
        load.wait_for_more(PER_SECOND)
        silence = max(arrivals.gaps(began, time.monotonic()).values())
        load.stop()
    print(f"{done}; all nodes copy again after {recovered:.0f} s; silence {silence:.1f} s")
    try:
        verdict = group.verify(topic, repeats_allowed=True)
    except GaveUp:
        record_property(Round.PROPERTY, row(stage, fault, silence, judge(stage, topic)).values())
        raise
    record_property(Round.PROPERTY, row(stage, fault, silence, verdict).values())


def judge(stage: Stage, topic: str) -> Verdict:
    source, target = stage.clusters
    return compare(read_topic(source.bootstrap, topic), read_topic(target.bootstrap, f"A.{topic}"))


def row(stage: Stage, fault: Fault, silence: float, verdict: Verdict) -> Round:
    return Round(
        topology=str(stage.topology),
        fault=fault.name,
        silence=silence,
        records=verdict.records,
        repeated=len(verdict.duplicated),
        lost=len(verdict.lost),
        stale=len(verdict.stale),
    )
