"""Questions to one cluster about what is replicated to it, for programs without asyncio."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import TracebackType
from typing import Self, overload

from mm2.client.config import MirrorClientConfig
from mm2.client.mirror_client_async import AsyncMirrorClient
from mm2.client.offsets import GroupOffsets
from mm2.client.own_loop import OwnLoop
from mm2.client.patience import TIMEOUT
from mm2.core.policies import ReplicationPolicy


class MirrorClient:
    """`AsyncMirrorClient` for programs that wait: the same methods, answers and errors. Context manager.

    It lives on an event loop and a thread of its own, from its construction to ``close``. So it may be used where a
    loop runs already, though it keeps that one waiting, and by several threads at a time. A program that forgets
    ``close`` can end all the same.
    """

    def __init__(self, config: MirrorClientConfig | Mapping[str, str]) -> None:
        """Connects to nothing yet. Raises ConfigInvalid, and SecuritySettingsInvalid where certificates or keys cannot
        be used."""
        self._config = MirrorClientConfig.of(config)
        self._client = AsyncMirrorClient(self._config)
        self._loop = OwnLoop(self._client, "mm2-client")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections and end the thread; questions under way fail with ClusterClosed."""
        self._loop.close()

    @property
    def replication_policy(self) -> ReplicationPolicy:
        """How remote and internal topics are called."""
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
