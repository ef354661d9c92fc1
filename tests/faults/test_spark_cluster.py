"""Lanes on a Spark cluster of two workers: a killed worker, no worker at all, and a restarted master."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.load import Load
from tests.lab.node import Node
from tests.lab.ports import HOST, release_port, reserve_port
from tests.lab.settings import one_flow
from tests.lab.spark_cluster import SparkCluster, address_of_this_machine
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until

pytestmark = pytest.mark.timeout(300)  # Spark takes its time to replace executors

PARTITIONS = 4
PER_SECOND = 1_000
COPIED = 90.0  # seconds: records that waited for an executor are copied after it starts
RUNS = 120.0  # seconds: the node retries a lost Spark cluster after 30 s, and an engine takes 20 s to start
SHOWN = 60.0  # seconds until a reason due after 10 s is shown: the missing executor has to be noticed first


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

    def is_waiting_for(self, words: str) -> bool:
        """Return whether the flow, its tasks and /health all report WAITING with ``words`` as the reason."""
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
            **spark.application,
            "listeners": f"http://{host}:{port}",
            f"{b}.offset.flush.interval.ms": "1000",
        }
        with Node(properties, name="clustered-node") as node:
            node.wait_running(RUNS)
            yield Clustered(node=node, spark=spark, source=cluster_a, target=cluster_b, alias=a)
    release_port(port)


@pytest.mark.long
def test_killed_worker_loses_nothing(clustered: Clustered, rng: random.Random) -> None:
    """The worker dies with its executor, as when a machine fails.

    The other worker has no free core, so its existing lane takes over the source tasks.
    """
    topic = clustered.topic()
    with Load(clustered.source, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load:
        clustered.wait_copying(topic)
        assert all(worker.executors() for worker in clustered.spark.workers), "each worker has a lane"
        load.wait_for_more(rng.randrange(PER_SECOND // 10, PER_SECOND))
        victim = rng.choice(clustered.spark.workers)
        victim.kill()
        wait_until(lambda: not clustered.node.healthy, SHOWN, "the node reports the lane without an executor")
        clustered.node.wait_running()
        clustered.wait_copying(topic)
        load.wait_for_more(PER_SECOND)
        load.stop()
    clustered.verify(topic)
    victim.start()


@pytest.mark.long
def test_tasks_without_executor_report_waiting(clustered: Clustered) -> None:
    node, spark = clustered.node, clustered.spark
    node.wait_running()
    topic = clustered.topic()
    with Load(clustered.source, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load:
        clustered.wait_copying(topic)
        for worker in spark.workers:
            worker.kill()
        wait_until(
            lambda: clustered.is_waiting_for(f"Spark master {spark.url} has started no executor"),
            SHOWN,
            "/flows and /health report that there is no executor",
        )
        for worker in spark.workers:
            worker.start()
        node.wait_running(RUNS)
        clustered.wait_copying(topic)
        load.stop()
    clustered.verify(topic)


@pytest.mark.long
def test_node_registers_again_after_master_restart(clustered: Clustered) -> None:
    """A restarted standalone master without recovery does not know the application and stops its executors."""
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
