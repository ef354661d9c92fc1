"""Queries have a Spark engine of their own: plain flows neither wait for it nor are they interrupted by it."""

from __future__ import annotations

import time

import pytest

from tests.faults.node_group import COPIED, NOISE
from tests.lab.arrivals import Arrivals
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.history import read_topic
from tests.lab.lanes import lanes
from tests.lab.load import Load
from tests.lab.node import Node
from tests.lab.records import Outgoing, write
from tests.lab.settings import ONE_COPY
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import require_within, wait_until

PER_SECOND = 200
RECORDS = 100
PAUSE = 2.0  # seconds: records arrive several times a second; a new JVM takes ten
STARTS = 150.0  # seconds until a new JVM runs a query, on busy cores


@pytest.mark.long  # an engine that dies: test_each_kind.py; the death of one for queries: tests/integration/queries
def test_plain_flows_run_on_while_queries_appear_die_and_disappear(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster
) -> None:
    a, c, b = (unique_name(stem) for stem in ("A", "C", "B"))
    without = {
        "clusters": f"{a}, {c}, {b}",
        f"{a}.bootstrap.servers": cluster_a.bootstrap,
        f"{c}.bootstrap.servers": cluster_a.bootstrap,
        f"{b}.bootstrap.servers": cluster_b.bootstrap,
        f"{a}->{b}.enabled": "true",
        f"{a}->{b}.topics": f"{a}-.*",
        f"{c}->{b}.enabled": "true",
        f"{c}->{b}.topics": f"{c}-.*",
        **ONE_COPY,
        "mm2.lanes": "1",
        "heartbeats.replication.enabled": "false",
        "emit.heartbeats.enabled": "false",
    }
    queries = without | {
        f"{c}->{b}.mm2.sql.upper.topics": f"{c}-.*",
        f"{c}->{b}.mm2.sql.upper.query": "SELECT upper(CAST(value AS STRING)) AS value FROM records",
    }
    topic, changed = (cluster_a.create_topic(unique_name(f"{alias}-t")) for alias in (a, c))

    def wait_changed(value: bytes) -> None:
        """Wait until records with this value have passed through the query."""
        write(cluster_a.bootstrap, changed, [Outgoing(value=value)] * RECORDS)

        def passed() -> int:
            found = read_topic(cluster_b.bootstrap, f"{c}.{changed}")[0]
            return sum(record.value == value.upper() for record in found)

        wait_until(lambda: passed() >= RECORDS, STARTS, "the records have passed through the query")

    with Node(without, name="engines") as node:
        node.wait_running()
        ((lane,), (jvm,)) = lanes(node), node.members("jvm")
        with (
            Load(cluster_a, topic, partitions=1, per_second=PER_SECOND) as load,
            Arrivals(cluster_b, f"{a}.{topic}", partitions=1) as arrivals,
        ):
            load.wait_for_more(PER_SECOND)
            arrivals.wait_for_all(time.monotonic(), STARTS)
            since = time.monotonic()
            node.rewrite(queries)
            wait_until(lambda: "new configuration applied" in node.process.output(), STARTS, "the file is applied")
            wait_changed(b"first")
            require_within(arrivals.gap(since), PAUSE + NOISE, "records arrive while the engine for queries starts")

            (victim,) = (one for one in node.members("jvm") if one.pid != jvm.pid)
            since = time.monotonic()
            victim.kill()
            wait_changed(b"second")
            require_within(arrivals.gap(since), PAUSE + NOISE, "records arrive while the engine for queries restarts")
            log = node.process.output()
            assert "the Spark engine for queries exited with code 3: " in log
            assert "the Spark engine exited" not in log

            since = time.monotonic()
            node.rewrite(without)
            wait_until(lambda: node.members("jvm") == [jvm], STARTS, "the engine for queries has stopped")
            node.wait_running()
            load.wait_for_more(PER_SECOND)
            require_within(arrivals.gap(since), PAUSE + NOISE, "records arrive while the engine for queries stops")
            load.stop()
        assert wait_until_copied((cluster_a.bootstrap, topic), (cluster_b.bootstrap, f"{a}.{topic}"), COPIED).exact
        assert lane.is_running(), "neither a death nor a reload has affected the plain lane"
        assert node.stop() == 0
