"""Queries about a cluster's topics, sync and async, through methods and functions."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import Any

import pytest

from mm2.client import AsyncMirrorClient, MirrorClient, MirrorClientConfig, remote_cluster, remote_cluster_async
from mm2.kafka.errors import ClusterClosed
from tests.integration.client.conftest import TOPICS
from tests.lab.cluster import KafkaCluster

HEARTBEATS = {"heartbeats", "A.heartbeats", "A.C.heartbeats"}
CHECKPOINTS = {"A.checkpoints.internal"}
REMOTE = {"A.orders", "A.C.orders", "A.heartbeats", "A.C.heartbeats"}

Properties = dict[str, str]


def topics_of(kafka: KafkaCluster) -> set[str]:
    """Return the topics listed by the independent client, without those of other tests in this package."""
    return {name for name in kafka.admin.list_topics(timeout=10).topics if name in TOPICS or "nowhere" in name}


def test_sync(properties: Properties) -> None:
    with MirrorClient(properties) as client:
        assert client.heartbeat_topics() == HEARTBEATS
        assert client.checkpoint_topics() >= CHECKPOINTS
        assert client.upstream_clusters() == {"A", "C"}
        assert [client.replication_hops(alias) for alias in ("A", "C", "B")] == [1, 2, None]
        assert client.remote_topics() == client.remote_topics("A") == REMOTE
        assert client.remote_topics("C") == set()
        assert client.replication_policy.format_remote_topic("A", "orders") == "A.orders"


async def test_async(properties: Properties) -> None:
    async with AsyncMirrorClient(MirrorClientConfig.from_properties(properties)) as client:
        answers = await asyncio.gather(
            client.heartbeat_topics(), client.upstream_clusters(), client.remote_topics(), client.replication_hops("C")
        )
        assert tuple(answers) == (HEARTBEATS, {"A", "C"}, REMOTE, 2)
        assert await client.checkpoint_topics() >= CHECKPOINTS
        assert client.replication_policy.checkpoints_topic("A") in CHECKPOINTS


async def test_functions(properties: Properties) -> None:
    """The sync functions work even while an event loop is running."""
    assert remote_cluster.heartbeat_topics(properties) == HEARTBEATS
    assert remote_cluster.checkpoint_topics(properties) >= CHECKPOINTS
    assert remote_cluster.upstream_clusters(properties) == {"A", "C"}
    assert remote_cluster.replication_hops(properties, "C") == 2
    assert await remote_cluster_async.heartbeat_topics(properties) == HEARTBEATS
    assert await remote_cluster_async.checkpoint_topics(properties) >= CHECKPOINTS
    assert await remote_cluster_async.upstream_clusters(properties) == {"A", "C"}
    assert await remote_cluster_async.replication_hops(properties, "B") is None


@pytest.mark.parametrize(("one", "other"), [(MirrorClient, AsyncMirrorClient), (remote_cluster, remote_cluster_async)])
def test_sync_and_async_have_the_same_signatures(one: Any, other: Any) -> None:
    def signatures(of: Any) -> dict[str, list[tuple[str, object, object]]]:
        return {
            name: [(each.name, each.kind, each.default) for each in inspect.signature(member).parameters.values()]
            for name, member in inspect.getmembers(of, inspect.isfunction)
            if not name.startswith("_") and member.__module__.startswith("mm2.client.")
        }

    assert signatures(one) == signatures(other)
    assert len(signatures(one)) >= 5


def test_custom_separator(properties: Properties) -> None:
    assert remote_cluster.upstream_clusters(properties | {"replication.policy.separator": "_"}) == set()


def test_client_is_thread_safe(properties: Properties) -> None:
    answers: list[set[str]] = []
    with MirrorClient(properties) as client:
        threads = [threading.Thread(target=lambda: answers.append(client.heartbeat_topics())) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == [HEARTBEATS] * 8


def test_closed_client_raises(properties: Properties) -> None:
    client = MirrorClient(properties)
    client.close()
    with pytest.raises(ClusterClosed):
        client.heartbeat_topics()


async def test_closed_async_client_raises(properties: Properties) -> None:
    async with AsyncMirrorClient(properties) as client:
        await client.heartbeat_topics()
    with pytest.raises(ClusterClosed):
        await client.heartbeat_topics()


def test_no_topics_or_groups_are_created(kafka: KafkaCluster, properties: Properties) -> None:
    """Neither topics, although these brokers create requested topics automatically, nor consumer groups."""
    before = topics_of(kafka)
    with MirrorClient(properties) as client:
        client.upstream_clusters()
        client.remote_consumer_offsets("nobody", "A", 30)
        with pytest.raises(Exception, match=r"no topic nowhere\.checkpoints\.internal"):
            client.remote_consumer_offsets("nobody", "nowhere", 30)
    assert topics_of(kafka) == before == set(TOPICS)
    assert kafka.admin.list_consumer_groups().result(10).valid == []
