"""Executors with only Python and Spark: the packages that lanes need are shipped in an archive."""

from __future__ import annotations

import subprocess
from hashlib import sha256

import psutil
import pytest

from tests.lab import scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import ROOT
from tests.lab.fixtures import unique_name
from tests.lab.history import end_offset_sum, read_topic
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.settings import one_flow
from tests.lab.spark_cluster import SparkCluster
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until

pytestmark = pytest.mark.timeout(300)  # packages are installed, packed, served and unpacked

PACKED = 180.0  # seconds: ten with a warm cache of packages
COPIED = 60.0
RUNS = 120.0  # seconds: the archive adds to Spark's start time
RECORDS = 500


@pytest.mark.long
def test_lanes_run_in_a_packed_environment(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    """Follows docs/how-to/spark-clusters.md. The master is on loopback here, so no listeners are required."""
    archive = scratch.directory("packed") / "mm2-lanes.tar.gz"
    subprocess.run(["sh", "deploy/spark/pack.sh", str(archive)], cwd=ROOT, check=True, timeout=PACKED)
    a, b = unique_name("A"), unique_name("B")
    topic, queried = (cluster_a.create_topic(unique_name(name), 2) for name in ("orders", "users"))
    for one in (topic, queried):
        write(cluster_a.bootstrap, one, plain(RECORDS, partitions=2), codec="zstd")
    with SparkCluster(workers=2) as spark:
        properties = one_flow(cluster_a, cluster_b, aliases=(a, b), topics=f"{topic}, {queried}") | {
            "emit.heartbeats.enabled": "false",
            **spark.application,
            "mm2.lanes": "1",
            "spark.archives": f"{archive}#environment",
            "spark.pyspark.python": "./environment/bin/python",
            f"{a}->{b}.mm2.sql.keys.topics": queried,
            f"{a}->{b}.mm2.sql.keys.query": "SELECT sha2(key, 256) AS key FROM records",
        }
        with Node(properties, name="shipping-node") as node:
            node.wait_running(RUNS)
            wait_until_copied((cluster_a.bootstrap, topic), (cluster_b.bootstrap, f"{a}.{topic}"), COPIED)
            remote = (cluster_b.bootstrap, f"{a}.{queried}")
            wait_until(lambda: end_offset_sum(*remote) == RECORDS, COPIED, "the records pass through the query")
            for partition, records in read_topic(cluster_a.bootstrap, queried).items():
                keys = [sha256(record.key or b"").hexdigest().encode() for record in records]
                assert [record.key for record in read_topic(*remote)[partition]] == keys
            commands = [command for one in spark.executors() if "pyspark.daemon" in (command := _command(one))]
            assert commands
            assert all(command.startswith("./environment/bin/python ") for command in commands)
            assert node.stop() == 0


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""
