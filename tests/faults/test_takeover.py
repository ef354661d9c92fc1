"""How soon the partitions of a killed node are copied again, with both elections and with short sessions."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import pytest

from tests.faults.node_group import NOISE, PARTITIONS, PER_SECOND, NodeGroup
from tests.lab.arrivals import Arrivals
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.load import Load
from tests.lab.waiting import require_within
from tests.lab.zookeeper import ZooKeeperServer

DEFAULT = 14.0  # seconds: session.timeout.ms (10 s), a heartbeat (3 s), and a second to start
SHORT = 8.0  # the same with a session of 6 s and heartbeats every second
SHORT_SESSION = {"B.session.timeout.ms": "6000", "B.heartbeat.interval.ms": "1000"}

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture
def zookeeper() -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer() as server:
        yield server


def check_takeover(
    source: KafkaCluster, target: KafkaCluster, properties: Mapping[str, str], within: float, role: str
) -> None:
    """Kill the leader or the follower of two nodes under load, and judge pauses and records."""
    own = {name: dict(properties) for name in ("one", "two")}
    with NodeGroup(source, target, properties_of=own) as nodes:
        topic = source.create_topic(unique_name("t"), PARTITIONS)
        leader, follower = nodes.roles()
        with (
            Arrivals(target, f"A.{topic}", partitions=PARTITIONS) as arrivals,
            Load(source, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load,
        ):
            load.wait_for_more(2 * PER_SECOND)
            killed = time.monotonic()
            victim = leader if role == "leader" else follower
            victim.kill()
            nodes.wait_shared("two" if victim.name == "one" else "one")
            load.wait_for_more(2 * PER_SECOND)
            gaps = arrivals.gaps(killed, time.monotonic())
            load.stop()
        print(f"the {role} killed: pauses {gaps}")
        require_within(max(gaps.values()), within + NOISE, "records of all partitions arrive again")
        nodes.verify(topic, repeats_allowed=True)


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_takeover_with_default_sessions(cluster_a: KafkaCluster, cluster_b: KafkaCluster, role: str) -> None:
    check_takeover(cluster_a, cluster_b, {}, DEFAULT, role)


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_takeover_with_zookeeper(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, zookeeper: ZooKeeperServer, role: str
) -> None:
    properties = {"mm2.election": "zookeeper", "mm2.zookeeper.connect": zookeeper.address}
    check_takeover(cluster_a, cluster_b, properties, DEFAULT, role)


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_takeover_with_short_sessions(cluster_a: KafkaCluster, cluster_b: KafkaCluster, role: str) -> None:
    check_takeover(cluster_a, cluster_b, SHORT_SESSION, SHORT, role)
