"""Java's RemoteClusterUtils: each function opens a client, sends one request and closes the client.

``config`` is a `MirrorClientConfig` or its properties. Results and errors are those of the methods of the same name in
`mm2.client.AsyncMirrorClient`. For several requests, open one client.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import overload

from mm2.client.config import MirrorClientConfig
from mm2.client.mirror_client import TIMEOUT, MirrorClient
from mm2.client.offsets import GroupOffsets


def replication_hops(
    config: MirrorClientConfig | Mapping[str, str], upstream_cluster_alias: str, *, timeout: float = TIMEOUT
) -> int | None:
    """Return the minimum number of flows from that cluster to this one; None if no heartbeats of it arrive."""
    with MirrorClient(config) as client:
        return client.replication_hops(upstream_cluster_alias, timeout=timeout)


def heartbeat_topics(config: MirrorClientConfig | Mapping[str, str], *, timeout: float = TIMEOUT) -> set[str]:
    """Return all heartbeats topics: the cluster's own and those replicated to it."""
    with MirrorClient(config) as client:
        return client.heartbeat_topics(timeout=timeout)


def checkpoint_topics(config: MirrorClientConfig | Mapping[str, str], *, timeout: float = TIMEOUT) -> set[str]:
    """Return the checkpoints topics, one for each cluster that is replicated to this one."""
    with MirrorClient(config) as client:
        return client.checkpoint_topics(timeout=timeout)


def upstream_clusters(config: MirrorClientConfig | Mapping[str, str], *, timeout: float = TIMEOUT) -> set[str]:
    """Return the aliases of all clusters whose heartbeats arrive here, over any number of hops."""
    with MirrorClient(config) as client:
        return client.upstream_clusters(timeout=timeout)


@overload
def translate_offsets(
    config: MirrorClientConfig | Mapping[str, str],
    remote_cluster_alias: str,
    consumer_group: str,
    timeout: float = TIMEOUT,
) -> GroupOffsets: ...
@overload
def translate_offsets(
    config: MirrorClientConfig | Mapping[str, str],
    remote_cluster_alias: str,
    consumer_group: re.Pattern[str],
    timeout: float = TIMEOUT,
) -> dict[str, GroupOffsets]: ...
def translate_offsets(
    config: MirrorClientConfig | Mapping[str, str],
    remote_cluster_alias: str,
    consumer_group: str | re.Pattern[str],
    timeout: float = TIMEOUT,
) -> GroupOffsets | dict[str, GroupOffsets]:
    """Return the positions on this cluster of a group of cluster ``remote_cluster_alias``; with a pattern, of all
    matching groups."""
    with MirrorClient(config) as client:
        return client.translate_offsets(remote_cluster_alias, consumer_group, timeout)
