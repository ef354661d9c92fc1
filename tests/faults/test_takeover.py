"""How soon the partitions of a killed node are copied again: with both elections, with short sessions, and if the node
restarts while its former membership lasts."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import pytest

from tests.faults.fault_times import pass_time
from tests.faults.node_group import COPIED, NOISE, PARTITIONS, PER_SECOND, NodeGroup
from tests.lab.arrivals import Arrivals
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.load import Load
from tests.lab.waiting import require_within
from tests.lab.zookeeper import ZooKeeperServer

DEFAULT = 14.0  # seconds: session.timeout.ms (10 s), a heartbeat (3 s), and a second to start
SHORT = 8.0  # the same with a session of 6 s and heartbeats every second
RESTARTED_AFTER = 2.0  # seconds: it joins the group again some seconds later, before the session of 10 s ends
SHORT_SESSION = {"B.session.timeout.ms": "6000", "B.heartbeat.interval.ms": "1000"}

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture
def zookeeper() -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer() as server:
        yield server


def check_takeover(
    source: KafkaCluster,
    target: KafkaCluster,
    properties: Mapping[str, str],
    within: float,
    role: str,
    *,
    restart_after: float | None = None,
) -> None:
    """Kill the leader or the follower of two nodes under load, and judge pauses and records.

    ``restart_after``: seconds until the killed node starts again; None: it does not.
    """
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
            if restart_after is None:
                nodes.wait_shared("two" if victim.name == "one" else "one")
            else:
                pass_time(restart_after)
                victim.start()
                arrivals.wait_for_all(time.monotonic(), COPIED)  # until then both nodes may show the former owner
                nodes.wait_shared()
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


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_takeover_with_zookeeper_while_the_node_restarts(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, zookeeper: ZooKeeperServer, role: str
) -> None:
    """The former membership ends with its session in the group, although a member with the same node ID has joined."""
    properties = {"mm2.election": "zookeeper", "mm2.zookeeper.connect": zookeeper.address}
    check_takeover(cluster_a, cluster_b, properties, DEFAULT, role, restart_after=RESTARTED_AFTER)
