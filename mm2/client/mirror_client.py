"""The synchronous client for what is replicated to a cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Self, overload

from mm2.client.config import MirrorClientConfig
from mm2.client.mirror_client_async import AsyncMirrorClient
from mm2.client.offsets import GroupOffsets
from mm2.client.own_loop import OwnLoop
from mm2.client.patience import TIMEOUT
from mm2.core.policies import ReplicationPolicy


class MirrorClient:
    """Synchronous `AsyncMirrorClient` with the same methods, results and errors. Context manager.

    It has its own event loop and thread from its construction to ``close``. It can therefore be used where an event
    loop already runs, although it blocks that loop, and by several threads at a time. A program that does not call
    ``close`` can still exit.
    """

    def __init__(self, config: MirrorClientConfig | Mapping[str, str]) -> None:
        """Create a client without connecting. Raises ConfigInvalid, and SecuritySettingsInvalid for unusable
        certificates or keys."""
        self._config = MirrorClientConfig.of(config)
        self._client = AsyncMirrorClient(self._config)
        self._loop = OwnLoop(self._client, "mm2-client")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections and end the thread; requests in progress fail with ClusterClosed."""
        self._loop.close()

    @property
    def replication_policy(self) -> ReplicationPolicy:
        """The policy that names remote and internal topics."""
        return self._config.policy

    def heartbeat_topics(self, *, timeout: float = TIMEOUT) -> set[str]:
        """See `AsyncMirrorClient.heartbeat_topics`."""
        return self._loop.ask(self._client.heartbeat_topics(timeout=timeout))

    def checkpoint_topics(self, *, timeout: float = TIMEOUT) -> set[str]:
        """See `AsyncMirrorClient.checkpoint_topics`."""
        return self._loop.ask(self._client.checkpoint_topics(timeout=timeout))

    def upstream_clusters(self, *, timeout: float = TIMEOUT) -> set[str]:
        """See `AsyncMirrorClient.upstream_clusters`."""
        return self._loop.ask(self._client.upstream_clusters(timeout=timeout))

    def replication_hops(self, upstream_cluster_alias: str, *, timeout: float = TIMEOUT) -> int | None:
        """See `AsyncMirrorClient.replication_hops`."""
        return self._loop.ask(self._client.replication_hops(upstream_cluster_alias, timeout=timeout))

    def remote_topics(self, source: str | None = None, *, timeout: float = TIMEOUT) -> set[str]:
        """See `AsyncMirrorClient.remote_topics`."""
        return self._loop.ask(self._client.remote_topics(source, timeout=timeout))

    @overload
    def remote_consumer_offsets(
        self, consumer_group: str, remote_cluster_alias: str, timeout: float = TIMEOUT
    ) -> GroupOffsets: ...
    @overload
    def remote_consumer_offsets(
        self, consumer_group: re.Pattern[str], remote_cluster_alias: str, timeout: float = TIMEOUT
    ) -> dict[str, GroupOffsets]: ...
    def remote_consumer_offsets(
        self, consumer_group: str | re.Pattern[str], remote_cluster_alias: str, timeout: float = TIMEOUT
    ) -> GroupOffsets | dict[str, GroupOffsets]:
        """See `AsyncMirrorClient.remote_consumer_offsets`."""
        if isinstance(consumer_group, str):
            return self._loop.ask(self._client.remote_consumer_offsets(consumer_group, remote_cluster_alias, timeout))
        return self._loop.ask(self._client.remote_consumer_offsets(consumer_group, remote_cluster_alias, timeout))

    @overload
    def translate_offsets(
        self, remote_cluster_alias: str, consumer_group: str, timeout: float = TIMEOUT
    ) -> GroupOffsets: ...
    @overload
    def translate_offsets(
        self, remote_cluster_alias: str, consumer_group: re.Pattern[str], timeout: float = TIMEOUT
    ) -> dict[str, GroupOffsets]: ...
    def translate_offsets(
        self, remote_cluster_alias: str, consumer_group: str | re.Pattern[str], timeout: float = TIMEOUT
    ) -> GroupOffsets | dict[str, GroupOffsets]:
        """See `AsyncMirrorClient.translate_offsets`."""
        return self.remote_consumer_offsets(consumer_group, remote_cluster_alias, timeout)
