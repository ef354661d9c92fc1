"""A node under load whose brokers end SASL sessions every few seconds (KIP-368).

Every connection of the node and of its lanes authenticates again in time: nothing waits, and nothing is repeated.
"""

from __future__ import annotations

import time

import psutil
import pytest

from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.sasl import SaslMechanism
from tests.integration.security import ALICE, PASSWORD, sasl, two_clusters
from tests.lab.arrivals import Arrivals
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster, unique_name
from tests.lab.history import read_topic
from tests.lab.listeners import Listener
from tests.lab.load import Load
from tests.lab.node import Node
from tests.lab.verify import compare, wait_until_copied
from tests.lab.waiting import require_within

pytestmark = pytest.mark.timeout(300)

SESSION_MS = 3_000
UNDER_LOAD = 15.0  # seconds: five sessions
PER_SECOND = 1_000
COPIED = 60.0
MANY = 5  # connections that a node has at least: to group coordinators, of its logs, of a lane
LONGEST_PAUSE = 1.5  # seconds; without a second authentication, reconnecting takes about as long on a busy machine
MECHANISM = SaslMechanism.SCRAM_SHA_512


def test_sessions_end_under_load(start_cluster: StartCluster) -> None:
    source, target = (_cluster(start_cluster, name) for name in ("a", "b"))
    topic = source.create_topic(unique_name("orders"), 2)
    file = two_clusters(sasl(source, MECHANISM), sasl(target, MECHANISM), topics=topic)
    with Node(file, name="node") as node:
        node.wait_running()
        since = len(node.process.output())
        with (
            Load(source, topic, partitions=2, per_second=PER_SECOND) as load,
            Arrivals(target, f"A.{topic}", partitions=2) as arrivals,
        ):
            arrivals.wait_for_all(time.monotonic(), COPIED)
            began, open_before = time.monotonic(), connections(node, source, target)
            time.sleep(UNDER_LOAD)
            pause, open_after = arrivals.gap(began), connections(node, source, target)
            load.stop()
        wait_until_copied((source.bootstrap, topic), (target.bootstrap, f"A.{topic}"), COPIED)
        assert node.health()["status"] == "UP"
        logged = node.process.output()[since:]
        assert node.stop() == 0
    verdict = compare(read_topic(source.bootstrap, topic), read_topic(target.bootstrap, f"A.{topic}"))
    assert verdict.exact, str(verdict)
    assert "WARNING" not in logged, logged
    assert len(open_before) > MANY
    assert open_before <= open_after, "a broker has closed connections"
    require_within(pause, LONGEST_PAUSE, "records arrive while connections authenticate again")


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


def _cluster(start_cluster: StartCluster, name: str) -> KafkaCluster:
    return start_cluster(
        name,
        listeners=(Listener(protocol=SecurityProtocol.SASL_PLAINTEXT, mechanisms=(MECHANISM,)),),
        users={ALICE: PASSWORD},
        properties={"connections.max.reauth.ms": str(SESSION_MS)},
    )
