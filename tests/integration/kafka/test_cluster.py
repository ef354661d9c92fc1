"""The cluster client on real brokers: its metadata, its requests, and its behaviour during failures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from functools import partial

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.core.settings.client import ClientSettings
from mm2.kafka.client.cluster import Cluster, CoordinatorKind
from mm2.kafka.client.metadata import Metadata
from mm2.kafka.connection.connection import Connection
from mm2.kafka.errors import (
    ClusterClosed,
    ConnectionLost,
    LeaseExpired,
    NoLeader,
    RequestTimedOut,
    Unreachable,
)
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.metadata_request import MetadataRequest
from mm2.kafka.retrying import retried
from tests.integration.kafka.clients import connected, led, settings
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import ClusterOf, StartCluster
from tests.lab.freezing import freeze, thaw
from tests.lab.jars import VERSIONS
from tests.lab.waiting import require_within, until

Condition = Callable[[], bool | Awaitable[bool]]

SOON = 30.0  # seconds: broker restarts and elections on a busy machine


@pytest.mark.parametrize("version", VERSIONS)
async def test_cluster_metadata(cluster_of: ClusterOf, unique: Callable[[str], str], version: str) -> None:
    kafka = cluster_of(version)
    name = kafka.create_topic(unique("orders"), 3)
    async with connected(kafka) as cluster:
        await led(cluster, *(TopicPartition(name, number) for number in range(3)))
        metadata = await cluster.metadata(None)
        assert metadata.cluster_id
        assert list(metadata.brokers) == [1]
        assert f"{metadata.brokers[1].host}:{metadata.brokers[1].port}" == kafka.bootstrap
        orders = metadata.topics[name]
        assert (orders.error, orders.is_internal) == (0, False)
        assert orders.topic_id is not None
        assert [(one.partition, one.leader, one.in_sync) for one in orders.partitions] == [
            (number, 1, (1,)) for number in range(3)
        ]
        assert (await cluster.metadata([])).topics == {}
        assert await cluster.any_node() == 1
        assert await cluster.controller() == 1
        assert 3 in await cluster.versions(1)


async def test_requests_do_not_create_topics(cluster_a: KafkaCluster, unique: Callable[[str], str]) -> None:
    name = unique("ghost")
    async with connected(cluster_a) as cluster:
        assert (await cluster.metadata([name])).topics[name].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with pytest.raises(NoLeader) as caught:
            await cluster.leader(TopicPartition(name, 0))
        assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert name not in (await cluster.metadata(None)).topics


class CountingCluster(Cluster):
    """Keeps the topics of each request for metadata."""

    def __init__(self, client: ClientSettings) -> None:
        super().__init__(client)
        self.asked: list[object] = []

    async def metadata(self, topics: Collection[str] | None) -> Metadata:
        self.asked.append(topics)
        return await super().metadata(topics)


async def test_leaders_are_cached_and_requested_together(cluster_a: KafkaCluster, unique: Callable[[str], str]) -> None:
    names = [cluster_a.create_topic(unique("led"), 2) for _ in range(5)]
    async with CountingCluster(settings(cluster_a)) as cluster:
        asked = cluster.asked
        partitions = [TopicPartition(name, number) for name in names for number in (0, 1)]
        await led(cluster, *partitions)
        for one in partitions:
            cluster.forget(one)
        asked.clear()
        found = await asyncio.gather(*(cluster.leader(one) for one in partitions))
        assert {leader.node_id for leader in found} == {1}
        assert len(asked) <= 2  # the first is sent immediately, the others wait for it and share a request

        before = len(asked)
        assert list(await cluster.leaders(partitions)) == partitions
        assert cluster.cached_leader(partitions[0]) == found[0]
        assert len(asked) == before

        cluster.forget(partitions[0])
        assert cluster.cached_leader(partitions[0]) is None
        assert await cluster.leader(partitions[0]) == found[0]
        assert len(asked) == before + 1


async def test_missing_partition_has_no_leader(cluster_a: KafkaCluster, unique: Callable[[str], str]) -> None:
    name = cluster_a.create_topic(unique("small"), 1)
    async with connected(cluster_a) as cluster:
        await led(cluster, TopicPartition(name, 0))
        found = await cluster.leaders([TopicPartition(name, 0), TopicPartition(name, 1)])
        assert isinstance(found[TopicPartition(name, 1)], NoLeader)
        assert not isinstance(found[TopicPartition(name, 0)], NoLeader)


async def test_deleted_topic_is_removed_from_the_cache(cluster_a: KafkaCluster, unique: Callable[[str], str]) -> None:
    name = cluster_a.create_topic(unique("gone"), 1)
    async with connected(cluster_a) as cluster:
        await led(cluster, TopicPartition(name, 0))
        cluster_a.admin.delete_topics([name])[name].result(SOON)

        async def gone() -> bool:
            await cluster.metadata(None)
            return cluster.cached_leader(TopicPartition(name, 0)) is None and cluster.cached_topic(name) is None

        condition: Condition = gone
        await until(condition, SOON, f"{name} is gone")


async def test_metadata_of_thousands_of_topics(cluster_a: KafkaCluster) -> None:
    async with connected(cluster_a) as cluster:
        names = [f"no-such-topic-{number}" for number in range(1_201)]
        assert set((await cluster.metadata(names)).topics) == set(names)


async def test_coordinator_of_a_group(cluster_a: KafkaCluster) -> None:
    async with connected(cluster_a) as cluster:
        found = await retried(
            lambda: cluster.coordinator(CoordinatorKind.GROUP, "a group"), cluster.settings, timeout_ms=30_000
        )
        assert found == 1


async def test_all_bootstrap_servers_are_tried(cluster_a: KafkaCluster) -> None:
    servers = ("127.0.0.1:1", cluster_a.bootstrap, "no-such-host.invalid:9092")
    for _ in range(5):  # servers are tried in random order
        async with connected(cluster_a, bootstrap_servers=servers) as cluster:
            assert await cluster.any_node() == 1


async def test_error_if_no_bootstrap_server_responds() -> None:
    servers = ("127.0.0.1:1", "no-such-host.invalid:9092")
    async with Cluster(ClientSettings(bootstrap_servers=servers, alias="A")) as cluster:
        with pytest.raises(Unreachable, match=r"cluster A: .*(connection refused|cannot resolve host)"):
            await cluster.any_node()


async def test_nothing_is_sent_while_the_caller_has_no_lease(cluster_a: KafkaCluster) -> None:
    may_send = True
    settings = ClientSettings(bootstrap_servers=(cluster_a.bootstrap,))
    async with Cluster(settings, may_send=lambda: may_send) as cluster:
        node = await cluster.any_node()
        await cluster.send(node, MetadataRequest([]))
        may_send = False
        with pytest.raises(LeaseExpired, match="was not renewed"):
            await cluster.send(node, MetadataRequest([]))
        with pytest.raises(LeaseExpired):
            await cluster.refresh(())
        may_send = True
        pending = asyncio.create_task(cluster.send(node, MetadataRequest(None)))
        await asyncio.sleep(0)
        cluster.abort_connections()
        with pytest.raises(ConnectionLost):
            await pending
        assert await cluster.send(node, MetadataRequest([])), "it connects again"
        may_send = False
        with pytest.raises(LeaseExpired):
            await cluster.send(node, MetadataRequest([]), purpose="another")
        assert not cluster._connections[node, "another"].connected, "no connection is opened either"


async def test_unknown_broker_is_an_error(cluster_a: KafkaCluster) -> None:
    async with connected(cluster_a) as cluster:
        with pytest.raises(Unreachable, match="broker 17 is not part of the cluster"):
            await cluster.send(17, MetadataRequest([]))


async def test_requests_of_a_purpose_stay_in_order_across_reconnects(cluster_a: KafkaCluster) -> None:
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
            cluster._connections[1, "ordered"].disconnect()


async def test_each_purpose_has_its_own_connection(cluster_a: KafkaCluster) -> None:
    async with connected(cluster_a) as cluster:
        await asyncio.gather(*(cluster.send(1, MetadataRequest([]), purpose=one) for one in ("fetch", "fetch", "log")))
        assert set(cluster._connections) - {(1, "default")} == {(1, "fetch"), (1, "log")}


async def test_hung_broker_times_out_and_recovers(breakable: KafkaCluster) -> None:
    async with connected(breakable) as cluster:
        node = await cluster.any_node()
        await cluster.send(node, MetadataRequest([]))
        freeze(breakable.broker(1).process)
        began = time.monotonic()
        with pytest.raises(RequestTimedOut, match=r"no answer to MetadataRequest within 0.3 s"):
            await cluster.send(node, MetadataRequest([]), timeout_ms=300)
        require_within(time.monotonic() - began, 4.5, "the request times out before the 5 s of others")
        thaw(breakable.broker(1).process)
        await retried(lambda: cluster.send(node, MetadataRequest([])), cluster.settings, timeout_ms=30_000)


async def test_cancelled_request_does_not_affect_others(breakable: KafkaCluster) -> None:
    async with connected(breakable) as cluster:
        node = await cluster.any_node()
        freeze(breakable.broker(1).process)
        tasks = [asyncio.create_task(cluster.send(node, MetadataRequest([]))) for _ in range(3)]
        await asyncio.sleep(0.1)  # the requests are in flight
        tasks[1].cancel()
        thaw(breakable.broker(1).process)
        await asyncio.wait(tasks)
        assert tasks[1].cancelled()
        assert tasks[0].result() is not tasks[2].result()


async def test_broker_restart_fails_requests_in_flight_only(
    breakable: KafkaCluster, unique: Callable[[str], str]
) -> None:
    kafka, name = breakable, breakable.create_topic(unique("orders"))
    async with connected(kafka) as cluster:
        await led(cluster, TopicPartition(name, 0))
        leader = await cluster.leader(TopicPartition(name, 0))
        freeze(kafka.broker(1).process)
        in_flight = asyncio.create_task(cluster.send(leader.node_id, MetadataRequest([])))
        await asyncio.sleep(0.1)  # the request is in flight
        kafka.broker(1).kill()
        with pytest.raises(ConnectionLost, match="the broker closed the connection"):
            await in_flight
        assert cluster.cached_leader(TopicPartition(name, 0)) is None
        with pytest.raises(Unreachable, match=r"connection refused: is the broker down\?"):
            await cluster.send(leader.node_id, MetadataRequest([]))
        kafka.broker(1).start()
        found = await retried(
            lambda: cluster.leader(TopicPartition(name, 0)), cluster.settings, timeout_ms=int(SOON * 1000)
        )
        assert found.node_id == leader.node_id


async def test_idle_connections_closed_by_either_side_are_reopened(start_cluster: StartCluster) -> None:
    kafka = start_cluster(properties={"connections.max.idle.ms": "1000"})
    for idle in (500, 540_000):
        async with connected(kafka, connections_max_idle_ms=idle) as cluster:
            node = await cluster.any_node()
            await cluster.send(node, MetadataRequest([]), purpose="idle")
            connection = cluster._connections[node, "idle"]
            assert connection.connected
            await until(partial(closed, connection), SOON, "the connection is closed")
            await cluster.send(node, MetadataRequest([]), purpose="idle")


async def test_failed_connection_attempts_back_off(gone: KafkaCluster) -> None:
    async with connected(gone, reconnect_backoff_ms=100, reconnect_backoff_max_ms=400) as cluster:
        began = time.monotonic()
        for _ in range(4):
            with pytest.raises(Unreachable):
                await cluster.metadata([])
        assert time.monotonic() - began > 0.8 * (0.1 + 0.2 + 0.4)


async def test_waiters_for_the_same_attempt_share_its_failure(breakable: KafkaCluster) -> None:
    async with connected(breakable, reconnect_backoff_ms=100, reconnect_backoff_max_ms=400) as cluster:
        node = await cluster.any_node()
        breakable.broker(1).kill()
        began = time.monotonic()
        failures = await asyncio.gather(
            *(cluster.send(node, MetadataRequest([]), purpose="many") for _ in range(100)),
            *(cluster.leader(TopicPartition("t", number)) for number in range(100)),
            return_exceptions=True,
        )
        assert {type(one) for one in failures} == {Unreachable}
        require_within(time.monotonic() - began, 15.0, "all requests fail together")


async def test_closing_fails_requests_in_flight(breakable: KafkaCluster) -> None:
    async with connected(breakable) as cluster:
        node = await cluster.any_node()
        await cluster.send(node, MetadataRequest([]))
        freeze(breakable.broker(1).process)
        in_flight = [asyncio.create_task(cluster.send(node, MetadataRequest([]))) for _ in range(3)]
        connecting = asyncio.create_task(cluster.send(node, MetadataRequest([]), purpose="another"))
        await asyncio.sleep(0.1)  # the requests are in flight
        began = time.monotonic()
        await cluster.close()
        await asyncio.wait([*in_flight, connecting])
        require_within(time.monotonic() - began, 4.5, "requests fail at once; unanswered ones time out after 5 s")
        assert isinstance(connecting.exception(), ClusterClosed)
        assert all(isinstance(one.exception(), ConnectionLost) for one in in_flight)
        with pytest.raises(ClusterClosed):
            await cluster.metadata([])
        with pytest.raises(ClusterClosed):
            await cluster.send(node, MetadataRequest([]))


async def test_closing_that_is_cancelled_closes_every_connection(cluster_a: KafkaCluster) -> None:
    cluster = Cluster(settings(cluster_a))
    node = await cluster.any_node()
    await cluster.send(node, MetadataRequest([]))
    connections = [*cluster._connections.values(), *cluster._bootstrap.values()]
    closing = asyncio.create_task(cluster.close())
    await asyncio.sleep(0)  # it has begun, and waits for its own tasks
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert connections
    assert not any(connection.connected for connection in connections)


def closed(connection: Connection) -> bool:
    return not connection.connected
