"""A node's processes under load: kill -9 loses nothing, an orderly restart repeats nothing either."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import psutil
import pytest

from tests.faults.load import Load
from tests.faults.workers import daemons, lanes
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.node import Node
from tests.lab.settings import one_flow
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import GaveUp, wait_until

SEEDS = int(os.environ.get("MM2_FAULT_SEEDS", "10"))
COPIED = 90.0  # seconds: the last fault may be the node's own, and Spark takes its time to start
APPEARS = 60.0  # seconds until a process that was killed, or waits for one that was, is there again
LEASE = 15.0  # seconds without contact after which node and lane give each other up
PARTITIONS = 3
PER_SECOND = 2_000


@dataclass(frozen=True, slots=True)
class Running:
    """A node that lives through all seeds, and its flow."""

    node: Node
    source: KafkaCluster
    target: KafkaCluster
    alias: str

    def state(self, topic: str) -> str:
        """The topic's state in /flows, empty when it is not there yet."""
        shown = [topics for flow in self.node.flows() for topics in flow["topics"] if topics["topic"] == topic]
        return str(shown[0]["state"]) if shown else ""

    def verify(self, topic: str, *, repeats_allowed: bool) -> None:
        remote = (self.target.bootstrap, f"{self.alias}.{topic}")
        wait_until_copied((self.source.bootstrap, topic), remote, COPIED, repeats_allowed=repeats_allowed)


@pytest.fixture(scope="module")
def running(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> Iterator[Running]:
    a, b = unique_name("A"), unique_name("B")
    properties = one_flow(cluster_a, cluster_b, aliases=(a, b), topics=f"{a}-.*") | {
        "emit.heartbeats.enabled": "false",
        "heartbeats.replication.enabled": "false",
        "tasks.max": "2",
        "mm2.lanes": "2",
        f"{b}.session.timeout.ms": "6000",  # the least a broker accepts: a killed node's membership must run out
        f"{b}.offset.flush.interval.ms": "1000",
    }
    with Node(properties) as node:
        node.wait_running()
        yield Running(node, cluster_a, cluster_b, a)


VICTIMS: dict[str, Callable[[Node], list[psutil.Process]]] = {
    "node": lambda node: node.members("node"),
    "engine": lambda node: node.members("engine"),
    "JVM": lambda node: node.members("jvm"),
    "daemon": daemons,
    "worker": lanes,
}
ONE_OF_EACH = {"node": 1, "engine": 1, "JVM": 1, "daemon": 1}


def kill_newest(node: Node, role: str) -> None:
    """kill -9, as soon as there is such a process."""
    found = wait_until(lambda: VICTIMS[role](node), APPEARS, f"there is a {role} to kill")
    if role == "node":
        node.kill()
        node.start()
    else:
        with suppress(psutil.NoSuchProcess):  # it may be ending for an earlier fault
            max(found, key=lambda one: one.create_time()).kill()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_is_lost_when_each_process_is_killed(running: Running, rng: random.Random, seed: int) -> None:
    """In an order and at moments of chance, so that the next one falls while the last is still being repaired."""
    topic = running.source.create_topic(unique_name(f"{running.alias}-killed-{seed}"), PARTITIONS)
    roles = rng.sample(sorted(VICTIMS), len(VICTIMS))
    print("killed:", ", ".join(roles))
    with Load(running.source, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load:
        for role in roles:
            load.wait_for_more(rng.randrange(PER_SECOND // 10, PER_SECOND))
            kill_newest(running.node, role)
        load.wait_for_more(PER_SECOND)
        load.stop()
    running.verify(topic, repeats_allowed=True)
    with suppress(GaveUp):
        wait_until(lambda: singles(running.node) == ONE_OF_EACH, APPEARS, "one of each is left, and no orphan")
    assert singles(running.node) == ONE_OF_EACH
    running.node.wait_running()


def singles(node: Node) -> dict[str, int]:
    """How many processes there are of each role that should have one."""
    return {role: len(VICTIMS[role](node)) for role in ONE_OF_EACH}


@pytest.mark.parametrize("role", ["worker", "node"])
def test_a_process_that_hangs_loses_its_lease(running: Running, role: str) -> None:
    """Longer than the lease time: who is not heard of is replaced, who hears nothing stops, and nothing is lost."""
    node = running.node
    node.wait_running()
    topic = running.source.create_topic(unique_name(f"{running.alias}-hung"), PARTITIONS)
    with Load(running.source, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load:
        wait_until(lambda: running.state(topic) == "RUNNING", APPEARS, f"{topic} is being copied")
        workers = lanes(node)
        (hung, *_) = VICTIMS[role](node)
        hung.suspend()
        try:
            gone = workers[:1] if role == "worker" else workers
            wait_until(lambda: not any(alive(one) for one in gone), LEASE + 10, f"the lanes behind the hung {role} end")
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


def test_an_orderly_restart_under_load_repeats_nothing(running: Running, rng: random.Random) -> None:
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
