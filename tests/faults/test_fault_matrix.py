"""Every fault in every topology, MM2_SEEDS times, at-least-once and exactly-once: nothing is lost or stale, with
exactly-once nothing is repeated, and records arrive again.

A seed decides the victim, the moment and the duration. Each topology is started once; its faults follow one another,
each under load on its own topic. The table at the end of the run has the longest silence of a partition and the
repeated records.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.faults.fault_round import fresh_topic, judge, strike
from tests.faults.fault_scenarios import FAULTS, Fault
from tests.faults.fault_stage import Stage, Topology, running
from tests.faults.fault_table import Round
from tests.faults.mode import OURS

SEEDS = int(os.environ.get("MM2_SEEDS", "3"))  # `make matrix` sets 20
TOPOLOGIES = (
    Topology(nodes=2, brokers=1, lanes=2),
    Topology(nodes=2, brokers=1, election="zookeeper"),
    Topology(nodes=3, brokers=3),
    Topology(nodes=5, brokers=3, tasks_max=5, source_tasks_only=True),
)

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]  # seconds: five Sparks start, or a fault and its deadlines


@pytest.fixture(scope="module")
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    with running(request.param) as stage:
        yield stage


@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize(
    "stage",
    [replace(one, mode=mode) for one in TOPOLOGIES for mode in OURS],
    indirect=True,
    ids=lambda one: one.label,
    scope="module",
)
def test_fault_loses_nothing(
    stage: Stage, fault: Fault, seed: int, rng: random.Random, record_property: Callable[[str, object], None]
) -> None:
    with fresh_topic(stage, fault) as topic:
        row, wrong = judge(stage, topic, fault, strike(stage, topic, fault, rng))
        record_property(Round.PROPERTY, row.values())
        assert not wrong, wrong
