"""The clients for what is replicated to a cluster: `AsyncMirrorClient`, and `MirrorClient` for code without asyncio.

The synchronous one repeats the signatures, because a generic wrapper would lose the overloads of the types.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import re
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Self, TypeVar, overload

from mm2.client.config import MirrorClientConfig
from mm2.client.offsets import CheckpointFold, GroupOffsets, OffsetAndMetadata
from mm2.core.access.rights import on_topic
from mm2.core.naming.names import TopicPartition
from mm2.core.policies import ReplicationPolicy
from mm2.core.settings.client import ClientSettings
from mm2.core.topics.acls import Operation
from mm2.kafka.backoff import Backoff
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import AuthenticationRefused, ClusterClosed, ClusterError, RequestTimedOut, TlsRefused, check
from mm2.kafka.logs.compacted_log import CompactedLog
from mm2.kafka.protocol.error_codes import ErrorCode


class NoCheckpoints(ClusterError):
    """The cluster has no checkpoints topic for the given alias, such as A.checkpoints.internal.

    Java's client lets brokers create the topic and returns nothing; if they do not create it, it waits for a minute.
    """

    def __init__(self, cluster: str, topic: str, remote_cluster_alias: str) -> None:
        self.topic = topic
        super().__init__(
            f"{cluster} has no topic {topic}: check that {remote_cluster_alias} is the alias of a cluster that is "
            f"replicated to it with emit.checkpoints.enabled = true, and that the flow has the same replication policy"
        )


class CheckpointsIncomplete(ClusterError):
    """The timeout expired before the checkpoints topic was read to its end.

    ``offsets`` contains what had been read of each group. Unread checkpoints can be newer: a consumer that starts at
    these offsets can read records again or miss partitions. Java's client returns them as if they were complete.
    """

    retriable = True

    def __init__(
        self, topic: str, timeout: float, offsets: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]]
    ) -> None:
        self.offsets = offsets
        super().__init__(f"could not read {topic} to its end within {timeout:g} s; use a longer timeout")


def sources(policy: ReplicationPolicy, topic: str) -> Iterator[str]:
    """Yield the aliases that ``topic`` was replicated through, nearest first.

    Ends at the first repeated alias, which occurs under policies that do not reveal cycles.
    """
    seen: set[str] = set()
    upstream: str | None = topic
    while upstream is not None and (source := policy.topic_source(upstream)) is not None and source not in seen:
        yield source
        seen.add(source)
        upstream = policy.upstream_topic(upstream)


def hops(policy: ReplicationPolicy, topics: Iterable[str], alias: str) -> int | None:
    """Return the shortest path from ``alias``: 1 for a direct source, None if ``topics`` show no path."""
    ways = (list(sources(policy, topic)) for topic in topics)
    return min((way.index(alias) + 1 for way in ways if alias in way), default=None)


TIMEOUT = 60.0
"""Default timeout in seconds; Java's default.api.timeout.ms."""


async def answered(attempt: Callable[[], Awaitable[T]], what: str, settings: ClientSettings, *, timeout: float) -> T:
    """Return the result of the first successful attempt within ``timeout`` seconds in total.

    After the timeout, the last error is raised. Rejected passwords and certificates are raised immediately, because a
    retry does not help.
    """
    backoff = Backoff.for_retries(settings)
    last_error: ClusterError | None = None
    try:
        async with asyncio.timeout(timeout):
            while True:
                try:
                    return await attempt()
                except (AuthenticationRefused, TlsRefused):
                    raise
                except ClusterError as error:
                    if not error.retriable:
                        raise
                    last_error = error
                await asyncio.sleep(backoff.next())
    except TimeoutError:
        raise last_error or RequestTimedOut(f"{what}: no response within {timeout:g} s") from None


_CHECKPOINTS_PARTITION = 0  # MirrorCheckpointTask writes all checkpoints there


@dataclass(frozen=True, slots=True)
class TopicNames:
    """The names of all topics of a cluster, interpreted by a replication policy."""

    topics: AbstractSet[str]
    policy: ReplicationPolicy

    def heartbeat_topics(self) -> set[str]:
        return {topic for topic in self.topics if self.policy.is_heartbeats_topic(topic)}

    def checkpoint_topics(self) -> set[str]:
        return {topic for topic in self.topics if self.policy.is_checkpoints_topic(topic)}

    def upstream_clusters(self) -> set[str]:
        return {alias for topic in self.heartbeat_topics() for alias in sources(self.policy, topic)}

    def replication_hops(self, alias: str) -> int | None:
        """Return 1 for a cluster that is replicated directly; None if no heartbeats of ``alias`` arrive."""
        return hops(self.policy, self.heartbeat_topics(), alias)

    def remote_topics(self, source: str | None) -> set[str]:
        """Return the remote topics of all sources, or only those directly from ``source``, without internal topics."""
        found = {topic: self.policy.topic_source(topic) for topic in self.topics}
        return {
            topic
            for topic, origin in found.items()
            if origin is not None and source in (None, origin) and not self.policy.is_internal_topic(topic)
        }


class AsyncMirrorClient:
    """Java's MirrorClient: a client of the cluster that records are replicated *to*. Async context manager.

    Times are seconds. Every method raises ClusterError: `AuthenticationRefused` and `TlsRefused` immediately,
    `Unreachable` and other temporary errors after ``timeout``. It writes nothing, creates no topics and joins no
    consumer group. Many tasks can use one client at a time.
    """

    def __init__(self, config: MirrorClientConfig | Mapping[str, str]) -> None:
        """Create a client from a configuration or properties, without connecting. Raises ConfigInvalid."""
        self._config = MirrorClientConfig.of(config)
        self._cluster = Cluster(self._config.client)
        self._reader = self._cluster if self._config.consumer is None else Cluster(self._config.consumer)

    async def __aenter__(self) -> Self:
        """Prepare the client without connecting. Raises SecuritySettingsInvalid for unusable certificates or keys."""
        await self._cluster.__aenter__()
        if self._reader is not self._cluster:
            await self._reader.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; requests in progress fail with ClusterClosed."""
        await self._cluster.close()
        await self._reader.close()

    @property
    def replication_policy(self) -> ReplicationPolicy:
        """The policy that names remote and internal topics."""
        return self._config.policy

    async def heartbeat_topics(self, *, timeout: float = TIMEOUT) -> set[str]:
        """Return all heartbeats topics: the cluster's own and those replicated to it."""
        return (await self._topics(timeout)).heartbeat_topics()

    async def checkpoint_topics(self, *, timeout: float = TIMEOUT) -> set[str]:
        """Return the checkpoints topics, one for each cluster that is replicated to this one."""
        return (await self._topics(timeout)).checkpoint_topics()

    async def upstream_clusters(self, *, timeout: float = TIMEOUT) -> set[str]:
        """Return the aliases of all clusters whose heartbeats arrive here, over any number of hops."""
        return (await self._topics(timeout)).upstream_clusters()

    async def replication_hops(self, upstream_cluster_alias: str, *, timeout: float = TIMEOUT) -> int | None:
        """Return the minimum number of flows from that cluster to this one: 1 if it is replicated directly.

        None if no heartbeats of it arrive. (Java returns -1, which is less than any number of hops.)
        """
        return (await self._topics(timeout)).replication_hops(upstream_cluster_alias)

    async def remote_topics(self, source: str | None = None, *, timeout: float = TIMEOUT) -> set[str]:
        """Return the topics replicated to this cluster; with ``source`` only those directly from that cluster.

        Replicated heartbeats topics are included. Under the identity policy names do not identify remote topics: all
        topics count if the policy has a source alias, otherwise only replicated heartbeats topics.
        """
        return (await self._topics(timeout)).remote_topics(source)

    @overload
    async def remote_consumer_offsets(
        self, consumer_group: str, remote_cluster_alias: str, timeout: float = TIMEOUT
    ) -> GroupOffsets: ...
    @overload
    async def remote_consumer_offsets(
        self, consumer_group: re.Pattern[str], remote_cluster_alias: str, timeout: float = TIMEOUT
    ) -> dict[str, GroupOffsets]: ...
    async def remote_consumer_offsets(
        self, consumer_group: str | re.Pattern[str], remote_cluster_alias: str, timeout: float = TIMEOUT
    ) -> GroupOffsets | dict[str, GroupOffsets]:
        """Return the positions on this cluster of a consumer group of cluster ``remote_cluster_alias``.

        The result contains this cluster's topics and offsets, from the last checkpoint of each partition. A group
        without checkpoints has no partitions. A compiled pattern instead of a group's name must match whole names; the
        result is then by group (KIP-1239).

        Reads the checkpoints topic once from its beginning to its current end. Raises NoCheckpoints if the topic does
        not exist, CheckpointsIncomplete with what was read if ``timeout`` expires first, BrokerError if reading is not
        allowed, and TypeError for an invalid group or alias, such as None. Records that are not checkpoints are skipped
        with a warning.
        """
        if not isinstance(remote_cluster_alias, str):
            raise TypeError(f"remote_cluster_alias must be a string, not {remote_cluster_alias!r}")
        if isinstance(consumer_group, str):
            group = consumer_group
            fold = CheckpointFold(lambda name: name == group)
            return (await self._read(fold, remote_cluster_alias, timeout)).get(group, {})
        pattern = consumer_group
        if not isinstance(pattern, re.Pattern) or not isinstance(pattern.pattern, str):
            raise TypeError(f"consumer_group must be a group's name or a compiled pattern of names, not {pattern!r}")
        fold = CheckpointFold(lambda name: pattern.fullmatch(name) is not None)
        return await self._read(fold, remote_cluster_alias, timeout)

    @overload
    async def translate_offsets(
        self, remote_cluster_alias: str, consumer_group: str, timeout: float = TIMEOUT
    ) -> GroupOffsets: ...
    @overload
    async def translate_offsets(
        self, remote_cluster_alias: str, consumer_group: re.Pattern[str], timeout: float = TIMEOUT
    ) -> dict[str, GroupOffsets]: ...
    async def translate_offsets(
        self, remote_cluster_alias: str, consumer_group: str | re.Pattern[str], timeout: float = TIMEOUT
    ) -> GroupOffsets | dict[str, GroupOffsets]:
        """Call `remote_consumer_offsets` with the name and argument order of RemoteClusterUtils."""
        return await self.remote_consumer_offsets(consumer_group, remote_cluster_alias, timeout)

    # -- inside

    async def _topics(self, timeout: float) -> TopicNames:
        """Return all visible topics except Kafka's internal ones, as Java's admin client lists them."""
        settings = self._config.client
        told = await answered(lambda: self._cluster.metadata(None), "list topics", settings, timeout=timeout)
        return TopicNames({name for name, topic in told.topics.items() if not topic.is_internal}, self._config.policy)

    async def _read(self, fold: CheckpointFold, alias: str, timeout: float) -> dict[str, GroupOffsets]:
        deadline = time.monotonic() + timeout
        topic = self._config.policy.checkpoints_topic(alias)
        await self._check_exists(topic, alias, timeout)
        left = max(0.0, deadline - time.monotonic())
        records = CompactedLog(self._reader, topic).read_to_end(timeout_ms=round(left * 1000))
        try:
            async with asyncio.timeout(left):
                async for record in records:
                    if record.partition == _CHECKPOINTS_PARTITION:
                        fold.add(record)
        except TimeoutError:
            raise CheckpointsIncomplete(topic, timeout, fold.offsets()) from None
        except ClusterError as error:
            if not error.retriable:
                raise
            raise CheckpointsIncomplete(topic, timeout, fold.offsets()) from error
        finally:
            fold.report(topic)
        return fold.offsets()

    async def _check_exists(self, topic: str, alias: str, timeout: float) -> None:
        settings = self._reader.settings
        told = await answered(lambda: self._reader.metadata([topic]), f"look up {topic}", settings, timeout=timeout)
        code = told.topics[topic].error
        if code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
            name = f"cluster {settings.alias}" if settings.alias else ",".join(settings.bootstrap_servers)
            raise NoCheckpoints(name, topic, alias)
        if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            right = on_topic(Operation.READ, topic, settings.alias)
            check(code, f"read {topic}", "no such topic, or a right is missing", right)


T = TypeVar("T")

_Opened = concurrent.futures.Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]

_ENDS_WITHIN = 10.0  # seconds: connections wait little more than one second for their peer to close


class OwnLoop:
    """Keeps ``resource`` open on its loop from construction to ``close``.

    A. The constructor raises exceptions from opening the resource, and then leaves no thread.
    B. After ``close``, requests in progress and later ones raise ClusterClosed.
    C. A loop without references ends by itself, and no loop keeps the program from exiting.
    """

    def __init__(self, resource: AbstractAsyncContextManager[object], name: str) -> None:
        opened: _Opened = concurrent.futures.Future()
        self._thread = threading.Thread(target=_run, args=(resource, opened), name=name, daemon=True)
        self._thread.start()
        try:
            self._loop, closing = opened.result()
        except Exception:
            self._thread.join(_ENDS_WITHIN)
            raise
        self._asking = threading.Lock()
        self._end = weakref.finalize(self, self._loop.call_soon_threadsafe, closing.set)
        self._end.atexit = False  # the interpreter takes the thread with it

    def ask(self, question: Coroutine[Any, Any, T]) -> T:
        """Run ``question`` on the loop and return its result. Any thread except the loop's own can call this."""
        with self._asking:
            if not self._end.alive:
                question.close()
                raise ClusterClosed("the client is closed")
            answer = asyncio.run_coroutine_threadsafe(question, self._loop)
        try:
            return answer.result()
        except concurrent.futures.CancelledError:
            raise ClusterClosed("the client is closed") from None
        except BaseException:
            answer.cancel()  # for example when Ctrl-C interrupts the wait
            raise

    def close(self) -> None:
        """Close the resource and end the thread."""
        with self._asking:
            self._end()
        self._thread.join(_ENDS_WITHIN)


def _run(resource: AbstractAsyncContextManager[object], opened: _Opened) -> None:
    asyncio.run(_hold(resource, opened))


async def _hold(resource: AbstractAsyncContextManager[object], opened: _Opened) -> None:
    closing = asyncio.Event()
    try:
        await resource.__aenter__()
    except Exception as error:  # noqa: BLE001 - passed to the waiting thread
        opened.set_exception(error)
        return
    try:
        opened.set_result((asyncio.get_running_loop(), closing))
        await closing.wait()
    finally:
        await resource.__aexit__(None, None, None)


class SynchronousClient:
    """A client without asyncio: it keeps an asynchronous one open on an event loop of its own. Context manager."""

    def __init__(self, client: AbstractAsyncContextManager[object], name: str) -> None:
        """``name``: of the thread. Raises exceptions from opening ``client``."""
        self._loop = OwnLoop(client, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections and end the thread; requests in progress fail with ClusterClosed."""
        self._loop.close()


class MirrorClient(SynchronousClient):
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
        super().__init__(self._client, "mm2-client")

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
