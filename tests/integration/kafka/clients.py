"""Settings and clients for tests against the lab's clusters."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import psutil

from mm2.core.client_settings import ClientSettings
from mm2.core.names import TopicPartition
from mm2.kafka.cluster import Cluster
from mm2.kafka.retrying import retried
from tests.lab.broker import Broker
from tests.lab.cluster import KafkaCluster
from tests.lab.waiting import wait_until

LED_MS = 30_000  # for a topic just created to have its leaders, on a machine that is busy
STOPPED = 5.0  # seconds until all threads of a broker have noticed
QUICK = {"request_timeout_ms": 5_000, "reconnect_backoff_max_ms": 200, "retry_backoff_max_ms": 200}


def settings(kafka: KafkaCluster, listener: str = "PLAINTEXT", **other: Any) -> ClientSettings:
    """Client settings for a listener of the lab's cluster, impatient enough for tests; its alias is its name."""
    servers = tuple(kafka.bootstrap_of(listener).split(","))
    return ClientSettings(**{"bootstrap_servers": servers, "alias": kafka.name, **QUICK, **other})


@asynccontextmanager
async def connected(kafka: KafkaCluster, listener: str = "PLAINTEXT", **other: Any) -> AsyncIterator[Cluster]:
    """A client that has not connected yet."""
    async with Cluster(settings(kafka, listener, **other)) as cluster:
        yield cluster


async def led(cluster: Cluster, *partitions: TopicPartition) -> None:
    """Wait until partitions of a topic just created have leaders."""
    for one in partitions:
        await retried(partial(cluster.leader, one), cluster.settings, timeout_ms=LED_MS)


def freeze(broker: Broker) -> None:
    """Stop a broker as a machine that hangs does: its connections stay, and nobody answers."""
    broker.process.signal(signal.SIGSTOP)
    process = psutil.Process(broker.process.pid)
    wait_until(lambda: process.status() == psutil.STATUS_STOPPED, STOPPED, f"{broker.name} is frozen")


def thaw(broker: Broker) -> None:
    """Let it go on."""
    broker.process.signal(signal.SIGCONT)
