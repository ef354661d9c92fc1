"""Clusters that are away: the node stays up, says what to look at, and goes on by itself when they come."""

from __future__ import annotations

from tests.integration.shared_node import COPIED, SEEN
from tests.lab.fixtures import StartCluster
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.settings import one_flow
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until


def test_a_node_waits_for_both_clusters(start_cluster: StartCluster) -> None:
    a, b = start_cluster("source"), start_cluster("target")
    a.create_topic("orders")
    write(a.bootstrap, "orders", plain(100))
    for cluster in (a, b):
        cluster.broker(1).stop()

    with Node(one_flow(a, b, topics="orders") | {"task.shutdown.graceful.timeout.ms": "2000"}) as node:
        node.wait_answering()
        wait_until(lambda: complains(node, "bootstrap.servers of B"), SEEN, "/health names the target's key")
        assert "is the broker down?" in complains(node, "bootstrap.servers of B")
        answer = node.get("/health")
        assert answer is not None
        assert answer.status_code == 503

        b.broker(1).restart()
        wait_until(lambda: "bootstrap.servers of A" in complains(node, "A->B is WAITING"), SEEN, "the source is named")
        assert not complains(node, "bootstrap.servers of B")

        a.broker(1).restart()
        node.wait_running()
        wait_until_copied((a.bootstrap, "orders"), (b.bootstrap, "A.orders"), COPIED)
        well = {"status": "UP", "reasons": []}
        wait_until(lambda: node.health() == well, SEEN, "the node has nothing to complain of any more")

        b.broker(1).stop()
        write(a.bootstrap, "orders", plain(10, first=100))
        wait_until(lambda: behind(node) == 10, SEEN, "the node has what the target does not take")
        assert node.stop() == 1, "it could not drain"
        assert "not everything was acknowledged within task.shutdown.graceful.timeout.ms" in node.process.output()


def behind(node: Node) -> int:
    """The topic's lag in records."""
    return sum(one["lag_records"] for one in node.topic("A->B", "orders").get("partitions", ()))


def test_a_host_that_nobody_knows(start_cluster: StartCluster) -> None:
    a = start_cluster("source")
    properties = one_flow(a, a, topics="orders") | {"B.bootstrap.servers": "no-such-host.invalid:9092"}
    with Node(properties) as node:
        node.wait_answering()
        sentence = wait_until(lambda: complains(node, "no-such-host.invalid"), SEEN, "/health names the host")
        assert "unknown to DNS" in sentence
        assert "bootstrap.servers of B" in sentence
        assert node.stop() == 0


def complains(node: Node, words: str) -> str:
    """The first reason of /health with these words, or nothing."""
    return next((reason for reason in node.health().get("reasons", []) if words in reason), "")
