"""Java's RemoteClusterUtils for programs on asyncio: one question to one cluster; a client is opened for it
and closed again.

``config`` is a `MirrorClientConfig` or the properties to make one of. Answers and errors are those of the methods of
the same name of `mm2.client.AsyncMirrorClient`. Whoever has several questions opens one client for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import overload

from mm2.client.config import MirrorClientConfig
from mm2.client.mirror_client_async import AsyncMirrorClient
from mm2.client.offsets import GroupOffsets
from mm2.client.patience import TIMEOUT


async def replication_hops(
    config: MirrorClientConfig | Mapping[str, str], upstream_cluster_alias: str, *, timeout: float = TIMEOUT
) -> int | None:
    """How many flows a record takes from that cluster to this one at least; None where none of its heartbeats
    arrive."""
    async with AsyncMirrorClient(config) as client:
        return await client.replication_hops(upstream_cluster_alias, timeout=timeout)


async def heartbeat_topics(config: MirrorClientConfig | Mapping[str, str], *, timeout: float = TIMEOUT) -> set[str]:
    """All heartbeats topics: the cluster's own and those replicated to it."""
    async with AsyncMirrorClient(config) as client:
        return await client.heartbeat_topics(timeout=timeout)


async def checkpoint_topics(config: MirrorClientConfig | Mapping[str, str], *, timeout: float = TIMEOUT) -> set[str]:
    """The topics with checkpoints, one for each cluster that is replicated to this one."""
    async with AsyncMirrorClient(config) as client:
        return await client.checkpoint_topics(timeout=timeout)


async def upstream_clusters(config: MirrorClientConfig | Mapping[str, str], *, timeout: float = TIMEOUT) -> set[str]:
    """The aliases of all clusters whose heartbeats arrive here, however many hops away."""
    async with AsyncMirrorClient(config) as client:
        return await client.upstream_clusters(timeout=timeout)


@overload
async def translate_offsets(
    config: MirrorClientConfig | Mapping[str, str],
    remote_cluster_alias: str,
    consumer_group: str,
    timeout: float = TIMEOUT,
) -> GroupOffsets: ...
@overload
async def translate_offsets(
    config: MirrorClientConfig | Mapping[str, str],
    remote_cluster_alias: str,
    consumer_group: re.Pattern[str],
    timeout: float = TIMEOUT,
) -> dict[str, GroupOffsets]: ...
async def translate_offsets(
    config: MirrorClientConfig | Mapping[str, str],
    remote_cluster_alias: str,
    consumer_group: str | re.Pattern[str],
    timeout: float = TIMEOUT,
) -> GroupOffsets | dict[str, GroupOffsets]:
    """Where a group of cluster ``remote_cluster_alias`` goes on in this one; with a pattern, all matching groups."""
    async with AsyncMirrorClient(config) as client:
        return await client.translate_offsets(remote_cluster_alias, consumer_group, timeout)
