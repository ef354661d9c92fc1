"""Lanes on a Spark cluster of two workers: one is killed under load, then there is none, then the master forgets."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.faults.load import Load
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.node import Node
from tests.lab.ports import HOST, release_port, reserve_port
from tests.lab.settings import one_flow
from tests.lab.spark_cluster import SparkCluster, address_of_this_machine
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until

pytestmark = pytest.mark.timeout(300)  # executors come and go at Spark's pace

PARTITIONS = 4
PER_SECOND = 1_000
COPIED = 90.0  # seconds: what waited for an executor is copied after it
RUNS = 120.0  # seconds: a Spark cluster that lost everything is asked anew after 30, and an engine takes 20 to start
SHOWN = 60.0  # seconds until a reason that is due after 10 is read: executors are missed first


@dataclass(frozen=True, slots=True, kw_only=True)
class Clustered:
    """A node whose two lanes run on a cluster of two workers."""

    node: Node
    spark: SparkCluster
    source: KafkaCluster
    target: KafkaCluster
    alias: str

    def topic(self) -> str:
        return self.source.create_topic(unique_name(f"{self.alias}-clustered"), PARTITIONS)

    def wait_copying(self, topic: str) -> None:
        def all_run() -> bool:
            shown = self.node.topic(f"{self.alias}->{self._target}", topic).get("partitions", ())
            return len(shown) == PARTITIONS and all(one["state"] == "RUNNING" for one in shown)

        wait_until(all_run, RUNS, f"all partitions of {topic} are being copied")

    @property
    def _target(self) -> str:
        return next(str(flow["target"]) for flow in self.node.flows() if flow["source"] == self.alias)

    def waits_with(self, words: str) -> bool:
        """Whether the flow waits, its tasks and /health for this reason."""
        flow = next((one for one in self.node.flows() if one["source"] == self.alias), {})
        waiting = [task for task in flow.get("tasks", ()) if task["kind"] == "source" and task["state"] == "WAITING"]
        return (
            flow.get("state") == "WAITING"
            and len(waiting) == 2
            and all(words in (task["error"] or "") for task in waiting)
            and any(words in reason for reason in self.node.health()["reasons"])
        )

    def verify(self, topic: str) -> None:
        remote = (self.target.bootstrap, f"{self.alias}.{topic}")
        wait_until_copied((self.source.bootstrap, topic), remote, COPIED, repeats_allowed=True)


@pytest.fixture(scope="module")
def clustered(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> Iterator[Clustered]:
    a, b = unique_name("A"), unique_name("B")
    host, port = address_of_this_machine() or HOST, reserve_port()
    with SparkCluster(workers=2, host=host) as spark:
        properties = one_flow(cluster_a, cluster_b, aliases=(a, b), topics=f"{a}-.*") | {
            "emit.heartbeats.enabled": "false",
            "heartbeats.replication.enabled": "false",
            "tasks.max": "2",
            "mm2.lanes": "2",
            "spark.master": spark.url,
            "listeners": f"http://{host}:{port}",
            f"{b}.offset.flush.interval.ms": "1000",
        }
        with Node(properties, name="clustered-node") as node:
            node.wait_running(RUNS)
            yield Clustered(node=node, spark=spark, source=cluster_a, target=cluster_b, alias=a)
    release_port(port)


def test_nothing_is_lost_when_a_worker_is_killed(clustered: Clustered, rng: random.Random) -> None:
    """With its executor, as when its machine goes: the other worker has no core left, so its lane takes the slots."""
    topic = clustered.topic()
    with Load(clustered.source, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load:
        clustered.wait_copying(topic)
        assert all(worker.executors() for worker in clustered.spark.workers), "each worker has a lane"
        load.wait_for_more(rng.randrange(PER_SECOND // 10, PER_SECOND))
        victim = rng.choice(clustered.spark.workers)
        victim.kill()
        wait_until(lambda: not clustered.node.healthy, SHOWN, "the lane without an executor is missed")
        clustered.node.wait_running()
        clustered.wait_copying(topic)
        load.wait_for_more(PER_SECOND)
        load.stop()
    clustered.verify(topic)
    victim.start()


def test_tasks_without_an_executor_wait_and_say_so(clustered: Clustered) -> None:
    node, spark = clustered.node, clustered.spark
    node.wait_running()
    topic = clustered.topic()
    with Load(clustered.source, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load:
        clustered.wait_copying(topic)
        for worker in spark.workers:
            worker.kill()
        wait_until(
            lambda: clustered.waits_with(f"Spark master {spark.url} has given no executor"),
            SHOWN,
            "/flows and /health say that there is no executor",
        )
        for worker in spark.workers:
            worker.start()
        node.wait_running(RUNS)
        clustered.wait_copying(topic)
        load.stop()
    clustered.verify(topic)


def test_a_master_that_forgot_the_node_is_asked_anew(clustered: Clustered) -> None:
    """A standalone master without recovery knows nothing after a restart, and has the executors ended."""
    node, spark = clustered.node, clustered.spark
    node.wait_running()
    topic = clustered.topic()
    (engine,) = node.members("engine")
    with Load(clustered.source, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load:
        clustered.wait_copying(topic)
        spark.stop_master()
        load.wait_for_more(PER_SECOND)
        spark.start_master()
        wait_until(
            lambda: any(one.pid != engine.pid for one in node.members("engine")),
            RUNS,
            "another engine has registered with the master",
        )
        node.wait_running(RUNS)
        clustered.wait_copying(topic)
        load.stop()
    clustered.verify(topic)
