"""Partition leaders move on clusters of three brokers, by restart, reassignment and crash: exact copies in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import ElectionType
from confluent_kafka import TopicPartition as Place

from tests.integration.flows.lane import copying
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster, unique_name
from tests.lab.load import Load
from tests.lab.node import Node
from tests.lab.settings import one_flow
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until

COPIED = 90.0  # seconds: six brokers, Spark and a writer share the cores
PARTITIONS = 6
PER_SECOND = 1_000


@dataclass(frozen=True, slots=True)
class Running:
    """A node between two clusters of three brokers."""

    node: Node
    source: KafkaCluster
    target: KafkaCluster


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with KafkaCluster("source", brokers=3) as source, KafkaCluster("target", brokers=3) as target:
        properties = one_flow(source, target, topics="orders-.*") | {
            "replication.factor": "3",
            "mm2.lanes": "1",
            "B.session.timeout.ms": "60000",  # keeps the leadership if the killed broker is the group coordinator
        }
        with Node(properties) as node:
            node.wait_running()
            yield Running(node, source, target)


@pytest.mark.long  # tests/integration/kafka/test_leader_changes.py
async def test_source_leaders_change_under_load(
    start_cluster: StartCluster, cluster_b: KafkaCluster, unique: Callable[[str], str]
) -> None:
    """tests/integration/flows/test_new_leaders.py has leaders on the target."""
    source = await asyncio.to_thread(start_cluster, "source", brokers=3)
    topic = unique("orders")
    await asyncio.to_thread(source.create_topic, topic, PARTITIONS)

    def move_leaders(load: Load) -> None:
        load.wait_for_more(PER_SECOND)
        leader = source.leader(topic)
        leader.kill()
        load.wait_for_more(3 * PER_SECOND)  # others have taken over
        leader.restart()
        elect_preferred_leaders(source, topic)
        load.wait_for_more(PER_SECOND)
        load.stop()

    async with copying(source, cluster_b, {topic: PARTITIONS}) as source_task:
        with Load(source, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load:
            await asyncio.to_thread(move_leaders, load)
        assert (await source_task.copied(topic)).exact


# The test above, and tests/integration/flows/test_new_leaders.py.
@pytest.mark.long
@pytest.mark.parametrize("side", ["source", "target"])
def test_leader_changes_under_load(running: Running, side: str) -> None:
    """tests/integration/flows/test_faults.py moves leaders on both sides simultaneously, in one source task."""
    cluster = running.source if side == "source" else running.target
    topic = running.source.create_topic(unique_name("orders"), PARTITIONS)
    name = topic if side == "source" else f"A.{topic}"
    wait_until(  # before a request for the remote topic, with which a broker would create it
        lambda: running.node.topic("A->B", topic).get("state") == "RUNNING", COPIED, f"{topic} is being copied"
    )
    with Load(running.source, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load:
        load.wait_for_more(PER_SECOND)
        leader = cluster.leader(name)
        leader.restart()  # clean restart: leadership moves away first
        load.wait_for_more(PER_SECOND)
        elect_preferred_leaders(cluster, name)
        load.wait_for_more(PER_SECOND)

        leader = cluster.leader(name)
        leader.kill()
        load.wait_for_more(3 * PER_SECOND)  # others have taken over
        leader.restart()
        elect_preferred_leaders(cluster, name)
        load.wait_for_more(PER_SECOND)
        load.stop()
    wait_until_copied((running.source.bootstrap, topic), (running.target.bootstrap, f"A.{topic}"), COPIED)
    wait_until(lambda: running.node.healthy, 30, "the node is healthy")


def elect_preferred_leaders(cluster: KafkaCluster, topic: str) -> None:
    """Elect the preferred leader of each partition, once all replicas are in sync."""

    def caught_up() -> bool:
        known = cluster.admin.list_topics(topic, timeout=10).topics[topic].partitions.values()
        return all(len(partition.isrs) == 3 for partition in known)

    wait_until(caught_up, COPIED, f"all replicas of {topic} are in sync")
    places = [Place(topic, number) for number in range(PARTITIONS)]
    cluster.admin.elect_leaders(ElectionType.PREFERRED, places).result(30)


@pytest.mark.long  # tests/integration/test_flow_remote_topics.py has other configs of remote topics
def test_remote_topics_have_three_replicas(running: Running) -> None:
    topic = running.source.create_topic(unique_name("orders"), 2)
    wait_until(
        lambda: f"A.{topic}" in running.target.admin.list_topics(timeout=10).topics,
        60,
        f"the remote topic of {topic} exists",
    )
    remote = running.target.admin.list_topics(timeout=10).topics[f"A.{topic}"]
    assert [len(partition.replicas) for partition in remote.partitions.values()] == [3, 3]
    internal = running.target.admin.list_topics(timeout=10).topics["mm2-offsets.A.internal"]
    assert {len(partition.replicas) for partition in internal.partitions.values()} == {3}
