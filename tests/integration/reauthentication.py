"""A node under load whose brokers end SASL sessions every few seconds (KIP-368)."""

from __future__ import annotations

import time

import psutil

from tests.lab.arrivals import Arrivals
from tests.lab.cluster import KafkaCluster
from tests.lab.history import read_topic
from tests.lab.load import Load
from tests.lab.node import Node
from tests.lab.verify import compare, wait_until_copied
from tests.lab.waiting import require_within

UNDER_LOAD = 15.0  # seconds: five sessions, or three
PARTITIONS = 2
PER_SECOND = 1_000
COPIED = 60.0
MANY = 5  # connections that a node has at least: to group coordinators, of its logs, of a lane
LONGEST_PAUSE = 1.5  # seconds; without a second authentication, reconnecting takes about as long on a busy machine


def require_no_pause(node: Node, source: KafkaCluster, target: KafkaCluster, topic: str) -> str:
    """Run a load through flow A->B of a running node. Fail if records wait, are repeated, or a connection, lane or flow
    ends. Returns what the node logged meanwhile."""
    since = len(node.process.output())
    with (
        Load(source, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load,
        Arrivals(target, f"A.{topic}", partitions=PARTITIONS) as arrivals,
    ):
        arrivals.wait_for_all(time.monotonic(), COPIED)
        began, open_before, workers = time.monotonic(), connections(node, source, target), _workers(node)
        time.sleep(UNDER_LOAD)
        pause, open_after = arrivals.gap(began), connections(node, source, target)
        load.stop()
    wait_until_copied((source.bootstrap, topic), (target.bootstrap, f"A.{topic}"), COPIED)
    assert node.health()["status"] == "UP"
    assert _workers(node) == workers, "lanes have started again"
    logged = node.process.output()[since:]
    verdict = compare(read_topic(source.bootstrap, topic), read_topic(target.bootstrap, f"A.{topic}"))
    assert verdict.exact, str(verdict)
    assert "WARNING" not in logged, logged
    assert "restarting" not in logged, logged
    assert len(open_before) > MANY
    assert open_before <= open_after, "a broker has closed connections"
    require_within(pause, LONGEST_PAUSE, "records arrive while connections authenticate again")
    return logged


def connections(node: Node, *clusters: KafkaCluster) -> set[tuple[int, int]]:
    """The open connections of the node and its lanes to the brokers, by both ports."""
    brokers = {int(cluster.bootstrap_of("SASL_PLAINTEXT").rpartition(":")[2]) for cluster in clusters}
    me = psutil.Process(node.process.pid)
    return {
        (one.laddr.port, one.raddr.port)
        for process in (me, *me.children(recursive=True))
        for one in process.net_connections()
        if one.status == psutil.CONN_ESTABLISHED and one.raddr.port in brokers
    }


def _workers(node: Node) -> set[int]:
    return {one.pid for one in node.members("worker")}
