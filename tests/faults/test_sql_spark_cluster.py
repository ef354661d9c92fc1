"""A flow with a query whose lane runs in an executor of a Spark cluster, which is killed."""

from __future__ import annotations

from functools import partial

import psutil
import pytest

from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.history import end_offset_sum
from tests.lab.load import Load
from tests.lab.node import Node
from tests.lab.ports import HOST, release_port, reserve_port
from tests.lab.settings import one_flow
from tests.lab.spark_cluster import SparkCluster, address_of_this_machine
from tests.lab.sql_lanes import QUERY, is_feeder, is_runner, queried
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until

PARTITIONS = 4
PER_SECOND = 1_000
COPIED = 90.0  # seconds
RUNS = 120.0  # seconds until records arrive: an engine, an executor and its lane start on busy cores


# test_sql_flows.py kills processes of a lane with a query; tests/integration/spark has lanes in executors
@pytest.mark.long
@pytest.mark.timeout(400)
def test_lanes_in_executors(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    a, b = unique_name("A"), unique_name("B")
    host, port = address_of_this_machine() or HOST, reserve_port()
    topic = cluster_a.create_topic(unique_name(f"{a}-t"), PARTITIONS)
    remote = (cluster_b.bootstrap, f"{a}.{topic}")

    def wait_for_copies(records: int) -> None:
        goal = end_offset_sum(*remote) + records
        wait_until(lambda: end_offset_sum(*remote) >= goal, RUNS, f"{records} more records of {topic} are copied")

    with SparkCluster(workers=2, host=host) as spark:
        properties = one_flow(cluster_a, cluster_b, aliases=(a, b), topics=f"{a}-.*") | {
            "emit.heartbeats.enabled": "false",
            "heartbeats.replication.enabled": "false",
            "tasks.max": "1",
            "mm2.lanes": "1",
            "mm2.sql.numbered.topics": ".*",
            "mm2.sql.numbered.query": QUERY,
            **spark.application,
            "listeners": f"http://{host}:{port}",
            f"{b}.offset.flush.interval.ms": "1000",
        }
        with (
            Node(properties, name="queries-clustered") as node,
            Load(cluster_a, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load,
        ):
            wait_for_copies(PER_SECOND)
            assert not node.members("worker"), "no lane runs on the node's machine by itself"
            (runner,) = (one for one in spark.executors() if is_runner(one))
            (executor,) = (one for one in runner.parents() if _is_executor(one))
            assert any(is_feeder(one) for one in executor.children(recursive=True))
            executor.kill()
            wait_until(lambda: not runner.is_running(), RUNS, "the lane runner ends with its executor")
            wait_for_copies(PER_SECOND)
            load.stop()
            wait_until_copied(
                (cluster_a.bootstrap, topic),
                remote,
                COPIED,
                repeats_allowed=True,
                transform=partial(queried, topic),
            )
    release_port(port)


def _is_executor(process: psutil.Process) -> bool:
    return "CoarseGrainedExecutorBackend" in " ".join(process.cmdline())
