"""Rows of the fault table, each in the smallest topology that has it, in all columns: ours and Java's MirrorMaker 2,
at-least-once and exactly-once.

``make faults ROW=node-killed MODE=exactly-once`` runs one cell, MM2_SEEDS times. For ours a column's guarantee is
judged; what happened to Java is recorded in the table.
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
from tests.faults.mode import MODES
from tests.lab.jars import KAFKA_3

SEEDS = int(os.environ.get("MM2_SEEDS", "1"))
TOPOLOGIES = (
    Topology(nodes=2, brokers=3),
    Topology(nodes=2, brokers=3, version=KAFKA_3, only="brokers upgraded"),
)
OURS_ONLY = (  # Java has no election through ZooKeeper, and the lab cannot skew the clock of a JVM
    Topology(nodes=2, brokers=1, election="zookeeper", only="ZooKeeper suspended"),
    Topology(nodes=2, brokers=1, clocks=True, only="clock skewed"),
)

pytestmark = [pytest.mark.long, pytest.mark.timeout(2_400)]  # seconds: Java may take 7 minutes three times


@pytest.fixture(scope="module")
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    with running(request.param) as stage:
        yield stage


@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize(
    "stage",
    [replace(one, mode=mode) for mode in MODES for one in (*TOPOLOGIES, *(() if mode.java else OURS_ONLY))],
    indirect=True,
    ids=lambda one: one.label,
    scope="module",
)
def test_fault(
    stage: Stage, fault: Fault, seed: int, rng: random.Random, record_property: Callable[[str, object], None]
) -> None:
    with fresh_topic(stage, fault) as topic:
        outcome = strike(stage, topic, fault, rng)
        row, wrong = judge(stage, topic, fault, outcome)
        record_property(Round.PROPERTY, row.values())
        print(row)
        assert not wrong, wrong
