"""Settings and clients for tests against the lab's clusters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from mm2.core.naming.names import TopicPartition
from mm2.core.settings.client import ClientSettings
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.retrying import retried
from tests.lab.cluster import KafkaCluster

LED_MS = 30_000  # for a new topic to have leaders, on a busy machine
QUICK = {"request_timeout_ms": 5_000, "reconnect_backoff_max_ms": 200, "retry_backoff_max_ms": 200}


def settings(kafka: KafkaCluster, listener: str = "PLAINTEXT", **other: Any) -> ClientSettings:
    """Return client settings for a listener of a lab cluster, with short timeouts; the alias is the cluster's name."""
    servers = tuple(kafka.bootstrap_of(listener).split(","))
    return ClientSettings(**{"bootstrap_servers": servers, "alias": kafka.name, **QUICK, **other})


@asynccontextmanager
async def connected(kafka: KafkaCluster, listener: str = "PLAINTEXT", **other: Any) -> AsyncIterator[Cluster]:
    """Create a client that has not connected yet."""
    async with Cluster(settings(kafka, listener, **other)) as cluster:
        yield cluster


async def led(cluster: Cluster, *partitions: TopicPartition) -> None:
    """Wait until partitions of a new topic have leaders."""
    for one in partitions:
        await retried(partial(cluster.leader, one), cluster.settings, timeout_ms=LED_MS)
