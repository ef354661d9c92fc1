"""Clients for questions whose answer must not wait long for a dead cluster, such as those at a failover."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from mm2.core.settings.client import ClientSettings
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterError, RequestTimedOut

ANSWER_MS = 5_000
"""A broker on another continent answers within a second. At a failover a command must not wait long for a dead one."""

REACHED_WITHIN_S = 10.0
"""Until one of the bootstrap servers has answered; enough for two dead ones."""


def short_timeout_cluster(settings: ClientSettings) -> Cluster:
    """Return a client with a short timeout. ``settings`` are those of the node's client for the same purpose."""
    return Cluster(replace(settings, request_timeout_ms=min(settings.request_timeout_ms, ANSWER_MS)))


async def connection_error(cluster: Cluster, *, within_s: float = REACHED_WITHIN_S) -> ClusterError | None:
    """Return why the cluster is unreachable; None if it answers within ``within_s`` seconds."""
    try:
        async with asyncio.timeout(within_s):
            await cluster.metadata(())
    except TimeoutError:
        return RequestTimedOut(
            f"cluster {cluster.settings.alias} did not answer within {within_s:.0f} s"
            f"; check {cluster.settings.alias}.bootstrap.servers"
        )
    except ClusterError as error:
        return error
    return None


def reason(alias: str, error: ClusterError) -> str:
    """Return the message of ``error`` without the cluster, for a message that contains it already."""
    return str(error).removeprefix(f"cluster {alias}: ")
