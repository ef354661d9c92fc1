"""Java MirrorMaker 2 after kill -9 of one of two nodes, for comparison with `test_takeover`.

It prints what it measures, and asserts only that no record is lost.
"""

from __future__ import annotations

import time

import pytest

from tests.faults.node_group import PARTITIONS, PER_SECOND
from tests.lab.arrivals import Arrivals
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.java_mm2 import JavaMirrorMaker
from tests.lab.load import Load
from tests.lab.settings import one_flow
from tests.lab.verify import wait_until_copied

STARTS = 180.0  # seconds until two nodes have shared the tasks, on shared cores
RECOVERS = 420.0  # seconds: scheduled.rebalance.max.delay.ms is 5 minutes in Java
SETTLED = 40.0  # seconds for the second rebalance after a node has joined

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_200)]


@pytest.mark.parametrize("delay_ms", ["", "0"], ids=["defaults", "no-delay"])
def test_killed_java_node(cluster_a: KafkaCluster, cluster_b: KafkaCluster, delay_ms: str) -> None:
    a, b = unique_name("A"), unique_name("B")
    topic = cluster_a.create_topic(unique_name(f"{a}-t"), PARTITIONS)
    properties = one_flow(cluster_a, cluster_b, aliases=(a, b), topics=f"{a}-.*") | {
        "tasks.max": "4",
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": "http://127.0.0.1:0",
        "emit.heartbeats.enabled": "false",
        f"{b}.offset.flush.interval.ms": "1000",
    }
    if delay_ms:
        properties |= {f"{b}.scheduled.rebalance.max.delay.ms": delay_ms}
    with (
        JavaMirrorMaker(properties, clusters=(b,), name="java-one"),
        JavaMirrorMaker(properties, clusters=(b,), name="java-two") as victim,
        Arrivals(cluster_b, f"{a}.{topic}", partitions=PARTITIONS) as arrivals,
        Load(cluster_a, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load,
    ):
        arrivals.wait_for_all(0.0, STARTS)
        time.sleep(SETTLED)
        killed = time.monotonic()
        victim.kill()
        time.sleep(15)  # what was in flight has arrived
        arrivals.wait_for_all(time.monotonic(), RECOVERS)
        gap = arrivals.gap(killed, time.monotonic())
        load.stop()
        verdict = wait_until_copied(
            (cluster_a.bootstrap, topic), (cluster_b.bootstrap, f"{a}.{topic}"), RECOVERS, repeats_allowed=True
        )
    print(f"Java, one of two nodes killed: longest pause {gap:.1f} s, {len(verdict.duplicated)} repeated")
