"""The cluster client on real brokers: what it knows, what it asks, and how it lives through trouble."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from mm2.core.client_settings import ClientSettings
from mm2.core.names import TopicPartition
from mm2.kafka.cluster import Cluster, CoordinatorKind
from mm2.kafka.connection import Connection
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import (
    BrokerError,
    ClusterClosed,
    ConnectionLost,
    NoLeader,
    RequestTimedOut,
    Unreachable,
)
from mm2.kafka.metadata_request import MetadataRequest
from mm2.kafka.retrying import retried
from tests.integration.kafka.clients import connected, freeze, led, thaw
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster
from tests.lab.jars import VERSIONS
from tests.lab.waiting import until

Condition = Callable[[], bool | Awaitable[bool]]

SOON = 30.0  # seconds: broker restarts and elections on a busy machine


@pytest.mark.parametrize("version", VERSIONS)
async def test_what_a_cluster_says_of_itself(start_cluster: StartCluster, version: str) -> None:
    kafka = start_cluster(version=version)
    kafka.create_topic("orders", 3)
    async with connected(kafka) as cluster:
        await led(cluster, *(TopicPartition("orders", number) for number in range(3)))
        told = await cluster.metadata(None)
        assert told.cluster_id
        assert list(told.brokers) == [1]
        assert f"{told.brokers[1].host}:{told.brokers[1].port}" == kafka.bootstrap
        orders = told.topics["orders"]
        assert (orders.error, orders.is_internal) == (0, False)
        assert orders.topic_id is not None
        assert [(one.partition, one.leader, one.in_sync) for one in orders.partitions] == [
            (number, 1, (1,)) for number in range(3)
        ]
        assert (await cluster.metadata([])).topics == {}
        assert await cluster.any_node() == 1
        assert await cluster.controller() == 1
        assert 3 in await cluster.versions(1)


async def test_no_topic_is_ever_created_by_asking(cluster_a: KafkaCluster, unique: Callable[[str], str]) -> None:
    name = unique("ghost")
    async with connected(cluster_a) as cluster:
        assert (await cluster.metadata([name])).topics[name].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with pytest.raises(NoLeader) as caught:
            await cluster.leader(TopicPartition(name, 0))
        assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert name not in (await cluster.metadata(None)).topics


async def test_leaders_are_remembered_and_asked_for_together(
    cluster_a: KafkaCluster, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [cluster_a.create_topic(unique("led"), 2) for _ in range(5)]
    async with connected(cluster_a) as cluster:
        asked: list[object] = []
        real = cluster.metadata

        async def counted(topics: object) -> object:
            asked.append(topics)
            return await real(topics)  # type: ignore[arg-type]

        monkeypatch.setattr(cluster, "metadata", counted)
        partitions = [TopicPartition(name, number) for name in names for number in (0, 1)]
        await led(cluster, *partitions)
        for one in partitions:
            cluster.forget(one)
        asked.clear()
        found = await asyncio.gather(*(cluster.leader(one) for one in partitions))
        assert {leader.node_id for leader in found} == {1}
        assert len(asked) <= 2  # the first goes at once, the others wait for it and go together

        before = len(asked)
        assert list(await cluster.leaders(partitions)) == partitions
        assert cluster.cached_leader(partitions[0]) == found[0]
        assert len(asked) == before

        cluster.forget(partitions[0])
        assert cluster.cached_leader(partitions[0]) is None
        assert await cluster.leader(partitions[0]) == found[0]
        assert len(asked) == before + 1


async def test_a_partition_that_does_not_exist_has_no_leader(
    cluster_a: KafkaCluster, unique: Callable[[str], str]
) -> None:
    name = cluster_a.create_topic(unique("small"), 1)
    async with connected(cluster_a) as cluster:
        await led(cluster, TopicPartition(name, 0))
        found = await cluster.leaders([TopicPartition(name, 0), TopicPartition(name, 1)])
        assert isinstance(found[TopicPartition(name, 1)], NoLeader)
        assert not isinstance(found[TopicPartition(name, 0)], NoLeader)


async def test_a_topic_deleted_meanwhile_is_forgotten(cluster_a: KafkaCluster, unique: Callable[[str], str]) -> None:
    name = cluster_a.create_topic(unique("gone"), 1)
    async with connected(cluster_a) as cluster:
        await led(cluster, TopicPartition(name, 0))
        cluster_a.admin.delete_topics([name])[name].result(SOON)

        async def gone() -> bool:
            await cluster.metadata(None)
            return cluster.cached_leader(TopicPartition(name, 0)) is None and cluster.cached_topic(name) is None

        condition: Condition = gone
        await until(condition, SOON, f"{name} is gone")


async def test_thousands_of_topics_come_in_chunks(cluster_a: KafkaCluster) -> None:
    async with connected(cluster_a) as cluster:
        names = [f"no-such-topic-{number}" for number in range(1_201)]
        assert set((await cluster.metadata(names)).topics) == set(names)


async def test_the_coordinator_of_a_group(cluster_a: KafkaCluster) -> None:
    async with connected(cluster_a) as cluster:
        found = await retried(
            lambda: cluster.coordinator(CoordinatorKind.GROUP, "a group"), cluster.settings, timeout_ms=30_000
        )
        assert found == 1


async def test_every_bootstrap_server_is_tried(cluster_a: KafkaCluster) -> None:
    servers = ("127.0.0.1:1", cluster_a.bootstrap, "no-such-host.invalid:9092")
    for _ in range(5):  # they are tried in random order
        async with connected(cluster_a, bootstrap_servers=servers) as cluster:
            assert await cluster.any_node() == 1


async def test_when_no_server_answers_it_says_why() -> None:
    servers = ("127.0.0.1:1", "no-such-host.invalid:9092")
    async with Cluster(ClientSettings(bootstrap_servers=servers, alias="A")) as cluster:
        with pytest.raises(Unreachable, match=r"cluster A: .*(nothing listens there|is unknown to DNS)"):
            await cluster.any_node()


async def test_unknown_brokers_are_refused(cluster_a: KafkaCluster) -> None:
    async with connected(cluster_a) as cluster:
        with pytest.raises(Unreachable, match="broker 17 is not part of the cluster"):
            await cluster.send(17, MetadataRequest([]))


async def test_requests_of_a_purpose_keep_their_order_through_a_reconnect(cluster_a: KafkaCluster) -> None:
    async with connected(cluster_a) as cluster:
        done: list[int] = []

        async def ask(number: int) -> None:
            await cluster.send(1, MetadataRequest([]), purpose="ordered")
            done.append(number)

        for _ in range(3):
            tasks = [asyncio.create_task(ask(number)) for number in range(50)]
            await asyncio.gather(*tasks)
            assert done == list(range(50))
            done.clear()
            cluster._connections[1, "ordered"].hang_up()


async def test_purposes_have_connections_of_their_own(cluster_a: KafkaCluster) -> None:
    async with connected(cluster_a) as cluster:
        await asyncio.gather(*(cluster.send(1, MetadataRequest([]), purpose=one) for one in ("fetch", "fetch", "log")))
        assert set(cluster._connections) - {(1, "default")} == {(1, "fetch"), (1, "log")}


async def test_a_broker_that_falls_silent_is_a_timeout_and_then_forgiven(start_cluster: StartCluster) -> None:
    kafka = start_cluster()
    async with connected(kafka) as cluster:
        node = await cluster.any_node()
        await cluster.send(node, MetadataRequest([]))
        freeze(kafka.broker(1))
        begun = time.monotonic()
        with pytest.raises(RequestTimedOut, match=r"no answer to MetadataRequest within 0.3 s"):
            await cluster.send(node, MetadataRequest([]), timeout_ms=300)
        assert time.monotonic() - begun < 4.5  # requests that nobody answers take 5
        thaw(kafka.broker(1))
        await retried(lambda: cluster.send(node, MetadataRequest([])), cluster.settings, timeout_ms=30_000)


async def test_a_cancelled_request_disturbs_nobody(start_cluster: StartCluster) -> None:
    kafka = start_cluster()
    async with connected(kafka) as cluster:
        node = await cluster.any_node()
        freeze(kafka.broker(1))
        tasks = [asyncio.create_task(cluster.send(node, MetadataRequest([]))) for _ in range(3)]
        await asyncio.sleep(0.1)  # the requests are under way
        tasks[1].cancel()
        thaw(kafka.broker(1))
        await asyncio.wait(tasks)
        assert tasks[1].cancelled()
        assert tasks[0].result() is not tasks[2].result()


async def test_a_restart_is_survived_and_what_was_under_way_is_told(start_cluster: StartCluster) -> None:
    kafka = start_cluster()
    name = kafka.create_topic("orders")
    async with connected(kafka) as cluster:
        await led(cluster, TopicPartition(name, 0))
        leader = await cluster.leader(TopicPartition(name, 0))
        freeze(kafka.broker(1))
        under_way = asyncio.create_task(cluster.send(leader.node_id, MetadataRequest([])))
        await asyncio.sleep(0.1)  # the request is on the wire
        kafka.broker(1).kill()
        with pytest.raises(ConnectionLost, match="the broker closed the connection"):
            await under_way
        assert cluster.cached_leader(TopicPartition(name, 0)) is None
        with pytest.raises(Unreachable, match=r"nothing listens there: is the broker down\?"):
            await cluster.send(leader.node_id, MetadataRequest([]))
        kafka.broker(1).start()
        found = await retried(
            lambda: cluster.leader(TopicPartition(name, 0)), cluster.settings, timeout_ms=int(SOON * 1000)
        )
        assert found.node_id == leader.node_id


async def test_connections_closed_by_either_side_while_idle_are_opened_again(start_cluster: StartCluster) -> None:
    kafka = start_cluster(properties={"connections.max.idle.ms": "1000"})
    for idle in (500, 540_000):
        async with connected(kafka, connections_max_idle_ms=idle) as cluster:
            node = await cluster.any_node()
            await cluster.send(node, MetadataRequest([]), purpose="idle")
            connection = cluster._connections[node, "idle"]
            assert connection.connected
            await until(partial(closed, connection), SOON, "the connection is closed")
            await cluster.send(node, MetadataRequest([]), purpose="idle")


async def test_failed_attempts_are_spaced(start_cluster: StartCluster) -> None:
    kafka = start_cluster()
    kafka.broker(1).kill()
    async with connected(kafka, reconnect_backoff_ms=100, reconnect_backoff_max_ms=400) as cluster:
        begun = time.monotonic()
        for _ in range(4):
            with pytest.raises(Unreachable):
                await cluster.metadata([])
        assert time.monotonic() - begun > 0.8 * (0.1 + 0.2 + 0.4)


async def test_those_who_wait_for_the_same_attempt_share_its_failure(start_cluster: StartCluster) -> None:
    kafka = start_cluster()
    async with connected(kafka, reconnect_backoff_ms=100, reconnect_backoff_max_ms=400) as cluster:
        node = await cluster.any_node()
        kafka.broker(1).kill()
        begun = time.monotonic()
        failures = await asyncio.gather(
            *(cluster.send(node, MetadataRequest([]), purpose="many") for _ in range(100)),
            *(cluster.leader(TopicPartition("t", number)) for number in range(100)),
            return_exceptions=True,
        )
        assert {type(one) for one in failures} == {Unreachable}
        assert time.monotonic() - begun < 15.0


async def test_closing_ends_what_is_under_way(start_cluster: StartCluster) -> None:
    kafka = start_cluster()
    async with connected(kafka) as cluster:
        node = await cluster.any_node()
        await cluster.send(node, MetadataRequest([]))
        freeze(kafka.broker(1))
        under_way = [asyncio.create_task(cluster.send(node, MetadataRequest([]))) for _ in range(3)]
        connecting = asyncio.create_task(cluster.send(node, MetadataRequest([]), purpose="another"))
        await asyncio.sleep(0.1)  # the requests are on the wire
        begun = time.monotonic()
        await cluster.close()
        assert time.monotonic() - begun < 4.5  # requests that nobody answers take 5
        await asyncio.wait([*under_way, connecting])
        assert time.monotonic() - begun < 4.5  # requests that nobody answers take 5
        assert isinstance(connecting.exception(), ClusterClosed)
        assert all(isinstance(one.exception(), ConnectionLost) for one in under_way)
        with pytest.raises(ClusterClosed):
            await cluster.metadata([])
        with pytest.raises(ClusterClosed):
            await cluster.send(node, MetadataRequest([]))


async def test_leadership_moves_and_the_client_follows(start_cluster: StartCluster) -> None:
    kafka = start_cluster(brokers=3)
    name = kafka.create_topic("orders", 3, copies=3)
    partitions = [TopicPartition(name, number) for number in range(3)]
    async with connected(kafka) as cluster:
        await led(cluster, *partitions)
        kafka.broker(1).kill()

        async def moved() -> bool:
            for one in partitions:
                cluster.forget(one)
            now = await cluster.leaders(partitions)
            return all(not isinstance(one, BrokerError) and one.node_id != 1 for one in now.values())

        condition: Condition = moved
        await until(condition, SOON, "all partitions are led by the living")
        assert await cluster.any_node() != 1
        assert await cluster.controller() != 1


def closed(connection: Connection) -> bool:
    return not connection.connected
