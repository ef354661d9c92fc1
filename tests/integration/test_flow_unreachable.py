"""Unreachable clusters: the node keeps running, reports what to check, and recovers on its own."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.integration.shared_node import COPIED, SEEN
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster
from tests.lab.freezing import frozen
from tests.lab.node import RUNS_WITHIN, Node
from tests.lab.records import plain, write
from tests.lab.settings import one_flow
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until


# in the gate: the test below, and both brokers killed in tests/faults/test_each_kind.py
@pytest.mark.long
def test_node_waits_for_both_clusters(start_cluster: StartCluster) -> None:
    a, b = start_cluster("source"), start_cluster("target")
    a.create_topic("orders")
    write(a.bootstrap, "orders", plain(100))
    for cluster in (a, b):
        cluster.broker(1).stop()

    with Node(
        one_flow(a, b, topics="orders")
        | {
            "task.shutdown.graceful.timeout.ms": "2000",
            "B.session.timeout.ms": "60000",  # longer than B hangs: without membership nothing would be left to drain
        }
    ) as node:
        node.wait_answering()
        named = wait_until(lambda: reason_in_health(node, "B.bootstrap.servers"), SEEN, "/health names the property")
        assert "is the broker down?" in named
        answer = node.get("/health")
        assert answer is not None
        assert answer.status_code == 503
        ready = wait_until(lambda: ready_reasons(node) or [], RUNS_WITHIN, "/health/ready is 200, although B is down")
        assert [one for one in ready if one.startswith("A->B: not a member: ") and "B.bootstrap.servers" in one]

        b.broker(1).restart()
        wait_until(
            lambda: "A.bootstrap.servers" in reason_in_health(node, "A->B is WAITING"),
            SEEN,
            "/health names the source's property",
        )
        wait_until(lambda: not reason_in_health(node, "B.bootstrap.servers"), SEEN, "/health names only the source")

        a.broker(1).restart()
        node.wait_running()
        wait_until_copied((a.bootstrap, "orders"), (b.bootstrap, "A.orders"), COPIED)
        well = {"status": "UP", "reasons": []}
        wait_until(lambda: node.health() == well, SEEN, "the node reports no problem any more")
        assert ready_reasons(node) == []
        started = re.compile(r" INFO .*: A->B is RUNNING after \d+ s$", re.MULTILINE)
        wait_until(lambda: started.search(node.process.output()) is not None, SEEN, "the log has the change of state")

        wait_until(lambda: node.metric("mm2_lane_buffer_used_bytes") == 0, SEEN, "nothing waits for the target")
        assert node.metric("mm2_lane_buffer_limit_bytes") > 0
        with frozen(b.broker(1).process):  # unlike with a stopped broker, the batch is surely in flight
            write(a.bootstrap, "orders", plain(10, first=100))
            wait_until(lambda: lag_of(node) == 10, SEEN, "the node shows the records that are not acknowledged as lag")
            wait_until(lambda: node.metric("mm2_lane_buffer_used_bytes") > 0, SEEN, "they wait in the lane's buffer")
            assert node.stop() == 1, "the node could not drain"
        assert "drain timed out after task.shutdown.graceful.timeout.ms" in node.process.output()


def ready_reasons(node: Node) -> list[str] | None:
    """Return the reasons of /health/ready if it is 200."""
    answer = node.get("/health/ready")
    return list(answer.json()["reasons"]) if answer is not None and answer.status_code == 200 else None


def lag_of(node: Node) -> int:
    """Return the topic's lag in records."""
    return sum(one["lag_records"] or 0 for one in node.topic("A->B", "orders").get("partitions", ()))


def test_unresolvable_host(cluster_a: KafkaCluster, unique: Callable[[str], str]) -> None:
    a, b = unique("A"), unique("B")
    address = {f"{b}.bootstrap.servers": "no-such-host.invalid:9092"}
    properties = one_flow(cluster_a, cluster_a, aliases=(a, b), topics="orders") | address
    with Node(properties) as node:
        node.wait_answering()
        reason = wait_until(lambda: reason_in_health(node, "no-such-host.invalid"), SEEN, "/health names the host")
        assert "cannot resolve host" in reason
        assert f"{b}.bootstrap.servers" in reason
        assert node.stop() == 0


def reason_in_health(node: Node, words: str) -> str:
    """Return the first reason in /health that contains ``words``, or an empty string."""
    return next((reason for reason in node.health().get("reasons", []) if words in reason), "")
