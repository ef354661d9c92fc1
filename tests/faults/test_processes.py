"""Processes of a node under load: kill -9 loses no records, and a clean restart also repeats none."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import psutil
import pytest

from tests.faults.mode import OURS, Mode
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.lanes import daemons, lanes
from tests.lab.load import Load
from tests.lab.node import Node
from tests.lab.settings import one_flow
from tests.lab.verify import Verdict, wait_until_copied
from tests.lab.waiting import GaveUp, wait_until

SEEDS = int(os.environ.get("MM2_FAULT_SEEDS", "50"))
COPIED = 90.0  # seconds: the last fault may kill the node itself, and Spark starts slowly
RESTARTED = 60.0  # seconds until a killed process, or one that waits for it, runs again
LEASE = 15.0  # seconds without contact after which node and lane stop relying on each other
PARTITIONS = 3
PER_SECOND = 2_000

# test_each_kind.py has killed processes, a stopped node, and a suspended one; tests/integration/flows/test_lease.py has
# the end of a lease.
pytestmark = pytest.mark.long


@dataclass(frozen=True, slots=True)
class Running:
    """The node that all seeds use, and its flow."""

    node: Node
    source: KafkaCluster
    target: KafkaCluster
    alias: str
    mode: Mode

    def state(self, topic: str) -> str:
        """Return the state of ``topic`` in /flows, or an empty string if it is not listed yet."""
        shown = [topics for flow in self.node.flows() for topics in flow["topics"] if topics["topic"] == topic]
        return str(shown[0]["state"]) if shown else ""

    def verify(self, topic: str, *, repeats_allowed: bool) -> Verdict:
        """Check the copy. ``repeats_allowed``: by this test; exactly-once never allows them. Raises GaveUp."""
        remote = (self.target.bootstrap, f"{self.alias}.{topic}")
        repeats = repeats_allowed and self.mode.repeats_allowed
        return wait_until_copied((self.source.bootstrap, topic), remote, COPIED, repeats_allowed=repeats)


@pytest.fixture(scope="module", params=OURS, ids=str)
def running(request: pytest.FixtureRequest, cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> Iterator[Running]:
    mode: Mode = request.param
    a, b = unique_name("A"), unique_name("B")
    properties = (
        one_flow(cluster_a, cluster_b, aliases=(a, b), topics=f"{a}-.*")
        | mode.properties(a, b)
        | {
            "emit.heartbeats.enabled": "false",
            "heartbeats.replication.enabled": "false",
            "tasks.max": "2",
            "mm2.lanes": "2",
            f"{b}.session.timeout.ms": "6000",  # the broker's minimum: the membership of a killed node must expire
            f"{b}.offset.flush.interval.ms": "1000",
        }
    )
    with Node(properties) as node:
        node.wait_running()
        yield Running(node, cluster_a, cluster_b, a, mode)


VICTIMS: dict[str, Callable[[Node], list[psutil.Process]]] = {
    "node": lambda node: node.members("node"),
    "engine": lambda node: node.members("engine"),
    "JVM": lambda node: node.members("jvm"),
    "daemon": daemons,
    "worker": lanes,
}
ONE_OF_EACH = {"node": 1, "engine": 1, "JVM": 1, "daemon": 1}


def kill_newest(node: Node, role: str) -> None:
    """Send SIGKILL to the newest process of ``role``, as soon as there is one."""
    found = wait_until(lambda: VICTIMS[role](node), RESTARTED, f"there is a {role} to kill")
    if role == "node":
        node.kill()
        node.start()
    else:
        with suppress(psutil.NoSuchProcess):  # it may be exiting because of an earlier fault
            max(found, key=lambda one: one.create_time()).kill()


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.fault_row("each process killed")
def test_killing_each_process_loses_nothing(
    running: Running, rng: random.Random, seed: int, record_row: Callable[[Verdict], None]
) -> None:
    """Random order and random times, so that a fault often hits during recovery from the previous one."""
    topic = running.source.create_topic(unique_name(f"{running.alias}-killed-{seed}"), PARTITIONS)
    roles = rng.sample(sorted(VICTIMS), len(VICTIMS))
    print("killed:", ", ".join(roles))
    with Load(running.source, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load:
        for role in roles:
            load.wait_for_more(rng.randrange(PER_SECOND // 10, PER_SECOND))
            kill_newest(running.node, role)
        load.wait_for_more(PER_SECOND)
        load.stop()
    record_row(running.verify(topic, repeats_allowed=True))
    try:
        wait_until(lambda: singles(running.node) == ONE_OF_EACH, RESTARTED, "one process of each role runs")
    except GaveUp:
        left = singles(running.node)
        assert all(number <= 1 for number in left.values()), f"no orphan is left: {left}"
        raise  # a process that has not started yet is only late
    running.node.wait_running()


def singles(node: Node) -> dict[str, int]:
    """Return the number of processes of each role that should have exactly one."""
    return {role: len(VICTIMS[role](node)) for role in ONE_OF_EACH}


@pytest.mark.parametrize("role", ["worker", "node"])
def test_hung_process_loses_its_lease(running: Running, role: str) -> None:
    """Beyond the lease time a silent process is replaced, its lanes stop, and no record is lost."""
    node = running.node
    node.wait_running()
    topic = running.source.create_topic(unique_name(f"{running.alias}-hung"), PARTITIONS)
    with Load(running.source, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load:
        wait_until(lambda: running.state(topic) == "RUNNING", RESTARTED, f"{topic} is being copied")
        workers = lanes(node)
        (hung, *_) = VICTIMS[role](node)
        hung.suspend()
        try:
            gone = workers[:1] if role == "worker" else workers
            wait_until(lambda: not any(alive(one) for one in gone), LEASE + 10, f"the lanes of the hung {role} stop")
        finally:
            if alive(hung):
                hung.resume()
        load.wait_for_more(PER_SECOND)
        load.stop()
    running.verify(topic, repeats_allowed=True)
    node.wait_running()


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_clean_restart_under_load_repeats_nothing(running: Running, rng: random.Random) -> None:
    topic = running.source.create_topic(unique_name(f"{running.alias}-restarted"), PARTITIONS)
    with Load(running.source, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load:
        running.node.wait_running()
        load.wait_for_more(rng.randrange(PER_SECOND, 3 * PER_SECOND))
        assert running.node.stop() == 0
        running.node.start()
        running.node.wait_running()
        load.wait_for_more(PER_SECOND)
        load.stop()
    running.verify(topic, repeats_allowed=False)
