"""A client of one Kafka cluster: who is there, who leads what, and requests to the right broker."""

from __future__ import annotations

import asyncio
import random
import ssl
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from copy import copy
from enum import IntEnum
from types import TracebackType
from typing import Any, Self

from aiokafka.conn import get_ip_port_afi
from aiokafka.protocol.coordination import FindCoordinatorRequest

from mm2.core.client_settings import ClientSettings, SecurityProtocol
from mm2.core.names import TopicPartition
from mm2.kafka.backoff import Backoff
from mm2.kafka.connection import Connection
from mm2.kafka.diagnosis import Endpoint
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import (
    ClusterClosed,
    ClusterError,
    NoLeader,
    NotSupported,
    SecuritySettingsInvalid,
    Unreachable,
    check,
)
from mm2.kafka.metadata import Broker, Leader, Metadata, TopicInfo, leaders
from mm2.kafka.metadata_request import MetadataRequest, decoded
from mm2.kafka.security import ssl_context

_TOPICS_A_REQUEST = 500  # keeps one answer small for the broker; reading it yields to the loop anyway


class CoordinatorKind(IntEnum):
    """What FindCoordinator looks for."""

    GROUP = 0
    TRANSACTION = 1


class Cluster:
    """Async context manager. All methods raise ClusterError; none retries beyond what it says.

    A. No request of this class creates a topic.
    B. There is one connection per broker and purpose; a broker serves one request of a connection at a time, so long
       polls and produce requests belong under purposes of their own.
    C. Leaders are remembered for metadata.max.age.ms, until ``forget`` or until their broker cannot be reached;
       concurrent refreshes become one request, and share its failure; two requests are at least the backoff apart.
    """

    def __init__(self, settings: ClientSettings, *, client_id: str | None = None) -> None:
        self.settings = settings
        self.group_coordinators: dict[str, int] = {}  # as last heard; `mm2.kafka.group_coordinators` keeps it
        self._client_id = client_id or settings.client_id
        self._ssl_context: ssl.SSLContext | None = None
        self._connections: dict[tuple[int, str], Connection] = {}
        self._bootstrap: dict[str, Connection] = {}
        self._bootstrapping = asyncio.Lock()
        self._brokers: dict[int, Broker] = {}
        self._brokers_stale = False
        self._controller: int | None = None
        self._topics: dict[str, tuple[float, TopicInfo]] = {}  # with the time of asking
        self._leaders: dict[TopicPartition, Leader] = {}
        self._brokers_asked = 0.0
        self._refreshing = asyncio.Lock()
        self._wanted: set[str] = set()
        self._backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        self._next_refresh = 0.0
        self._refresh_failure: tuple[float, ClusterError] | None = None  # when it was begun
        self._closed = False

    async def __aenter__(self) -> Self:
        """Connects to nothing yet. Raises SecuritySettingsInvalid."""
        if self.settings.security_protocol in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL):
            try:
                self._ssl_context = ssl_context(self.settings.tls)
            except SecuritySettingsInvalid as error:
                raise SecuritySettingsInvalid(f"{self._name}: {error}") from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; requests under way fail with ConnectionLost."""
        self._closed = True
        connections = [*self._connections.values(), *self._bootstrap.values()]
        await asyncio.gather(*(connection.close() for connection in connections))

    # -- requests

    async def send(
        self,
        node_id: int,
        request: Any,
        *,
        purpose: str = "default",
        timeout_ms: int | None = None,
        expect_response: bool = True,
    ) -> Any:
        """Send one of aiokafka's (or our) request objects to a broker; its response struct comes back.

        ``timeout_ms`` defaults to request.timeout.ms and does not count the time to connect. Requests of one broker and
        purpose go out in the order of the calls.
        """
        connection = self._connections.get((node_id, purpose))
        if connection is None or not connection.connected:
            connection = await self._connection(node_id, purpose)
        timeout = (self.settings.request_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        try:
            return await connection.send(request, timeout=timeout, expect_response=expect_response)
        except Unreachable:
            self._brokers_stale = True
            self._leaders = {one: leader for one, leader in self._leaders.items() if leader.node_id != node_id}
            raise

    async def versions(self, node_id: int, *, purpose: str = "default") -> dict[int, tuple[int, int]]:
        """API key to (lowest, highest) version of that broker."""
        return await (await self._connection(node_id, purpose)).versions()

    async def any_node(self) -> int:
        """A broker, one we are connected to if possible."""
        if not self._brokers:
            await self.refresh(())
        return next(iter(self._nodes_by_health()))

    async def controller(self) -> int:
        """The broker that creates topics. (KRaft names any: it passes the request on.)"""
        await self.refresh(())
        if self._controller is None:
            raise Unreachable(f"{self._name}: the cluster has no controller right now")
        return self._controller

    async def coordinator(self, kind: CoordinatorKind, key: str) -> int:
        """The broker that coordinates group or transactional id ``key``. Asks each time: callers keep the answer."""
        answer = await self.send(await self.any_node(), FindCoordinatorRequest(key, int(kind)))
        check(answer.error_code, f"find the coordinator of {key}", getattr(answer, "error_message", None))
        node_id = int(answer.coordinator_id)
        if node_id not in self._brokers:
            self._brokers[node_id] = Broker(node_id=node_id, host=answer.host, port=answer.port)
        return node_id

    # -- metadata

    async def metadata(self, topics: Collection[str] | None) -> Metadata:
        """Ask a broker about these topics, about all of them (None), or only about brokers (empty).

        Topics that do not exist come back with error 3 and are not created. What comes back is remembered.
        """
        if topics is None or len(topics) <= _TOPICS_A_REQUEST:
            return await self._ask(None if topics is None else sorted(topics))
        names = sorted(topics)
        found: dict[str, TopicInfo] = {}
        for start in range(0, len(names), _TOPICS_A_REQUEST):
            answer = await self._ask(names[start : start + _TOPICS_A_REQUEST])
            found.update(answer.topics)
        return Metadata(
            cluster_id=answer.cluster_id, controller=answer.controller, brokers=answer.brokers, topics=found
        )

    async def refresh(self, topics: Iterable[str]) -> None:
        """Look these topics up again (none: only the brokers), together with whoever else asks now."""
        called = time.monotonic()
        wanted = frozenset(topics)
        self._wanted |= wanted
        async with self._refreshing:
            if self._asked_since(called, wanted):
                return
            if self._refresh_failure is not None and self._refresh_failure[0] >= called:
                raise copy(self._refresh_failure[1])
            await asyncio.sleep(max(0.0, self._next_refresh - time.monotonic()))
            names, self._wanted = self._wanted | wanted, set()
            begun = time.monotonic()
            try:
                await self.metadata(names)
            except ClusterError as error:
                self._refresh_failure = (begun, error)
                raise
            finally:
                self._next_refresh = time.monotonic() + self._backoff.next()
            if self._all_led(names):
                self._backoff.reset()

    async def leader(self, partition: TopicPartition) -> Leader:
        """The partition's leader, from memory if it is fresh. Raises NoLeader."""
        found = (await self.leaders([partition]))[partition]
        if isinstance(found, NoLeader):
            raise found
        return found

    async def leaders(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Leader | NoLeader]:
        """All their leaders, from memory or by one request for all that are not known or no longer fresh."""
        unknown = {one.topic for one in partitions if self._stale(one.topic) or one not in self._leaders}
        if unknown:
            await self.refresh(unknown)
        return {one: self._leaders.get(one) or self._no_leader(one) for one in partitions}

    def cached_leader(self, partition: TopicPartition) -> Leader | None:
        """The leader as last heard, without asking."""
        return self._leaders.get(partition)

    def cached_topic(self, topic: str) -> TopicInfo | None:
        """The topic as last heard, without asking."""
        entry = self._topics.get(topic)
        return entry[1] if entry else None

    def forget(self, partition: TopicPartition) -> None:
        """A broker said it does not lead this partition: look it up before the next use."""
        self._leaders.pop(partition, None)

    # -- inside

    @property
    def _name(self) -> str:
        return f"cluster {self.settings.alias}" if self.settings.alias else ",".join(self.settings.bootstrap_servers)

    def _no_leader(self, partition: TopicPartition) -> NoLeader:
        topic = self.cached_topic(partition.topic)
        if topic is not None and topic.error:
            return NoLeader(partition, topic.error)
        if topic is not None and any(one.partition == partition.partition for one in topic.partitions):
            return NoLeader(partition, ErrorCode.LEADER_NOT_AVAILABLE)
        return NoLeader(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _stale(self, topic: str) -> bool:
        entry = self._topics.get(topic)
        return entry is None or time.monotonic() - entry[0] > self.settings.metadata_max_age_ms / 1000

    def _asked_since(self, moment: float, topics: frozenset[str]) -> bool:
        never = float("-inf")
        times = [self._topics[name][0] if name in self._topics else never for name in topics] or [self._brokers_asked]
        return min(times) >= moment

    def _all_led(self, topics: Iterable[str]) -> bool:
        infos = [self._topics[name][1] for name in topics if name in self._topics]
        return all(not info.error and all(p.leader >= 0 for p in info.partitions) for info in infos)

    async def _connection(self, node_id: int, purpose: str) -> Connection:
        """May look up where the brokers are, but not if the connection stands: order of calls is order of requests."""
        if self._closed:
            raise ClusterClosed(f"{self._name}: the client is closed")
        connection = self._connections.get((node_id, purpose))
        if connection is not None and connection.connected:
            return connection
        if self._brokers_stale or node_id not in self._brokers:
            await self.refresh(())
        if node_id not in self._brokers:
            raise Unreachable(f"{self._name}: broker {node_id} is not part of the cluster")
        return self._slot(node_id, purpose)

    def _slot(self, node_id: int, purpose: str) -> Connection:
        connection = self._connections.get((node_id, purpose))
        if connection is None:
            connection = self._connections[node_id, purpose] = self._new_connection(lambda: self._advertised(node_id))
        return connection

    def _advertised(self, node_id: int) -> Endpoint | None:
        broker = self._brokers.get(node_id)
        return Endpoint(host=broker.host, port=broker.port, advertised=True) if broker else None

    def _new_connection(self, endpoint: Callable[[], Endpoint | None]) -> Connection:
        return Connection(endpoint, self.settings, client_id=self._client_id, ssl_context=self._ssl_context)

    def _nodes_by_health(self) -> list[int]:
        """Connected ones first, those that failed last at the end, otherwise at random."""

        def rank(node_id: int) -> tuple[int, float]:
            connection = self._connections.get((node_id, "default"))
            if connection is None:
                return 1, random.random()  # noqa: S311 - spreads load, hides nothing
            return (0 if connection.connected else 2 if connection.failing else 1), random.random()  # noqa: S311

        return sorted(self._brokers, key=rank)

    async def _ask(self, topics: list[str] | None) -> Metadata:
        if self._closed:
            raise ClusterClosed(f"{self._name}: the client is closed")
        timeout = self.settings.request_timeout_ms / 1000
        for node_id in self._nodes_by_health():
            asked = time.monotonic()
            try:
                answer = await self._slot(node_id, "default").send(MetadataRequest(topics), timeout=timeout)
            except (ClusterClosed, NotSupported):
                raise
            except ClusterError:
                continue
            return self._remember(await decoded(answer), asked, everything=topics is None)
        return await self._ask_bootstrap(topics, timeout)

    async def _ask_bootstrap(self, topics: list[str] | None, timeout: float) -> Metadata:
        problems: list[ClusterError] = []
        async with self._bootstrapping:
            for server in _shuffled(self.settings.bootstrap_servers):
                connection = self._bootstrap.get(server)
                if connection is None:
                    connection = self._bootstrap[server] = self._new_connection(_fixed(server))
                asked = time.monotonic()
                try:
                    answer = await connection.send(MetadataRequest(topics), timeout=timeout)
                except (ClusterClosed, NotSupported):
                    raise
                except ClusterError as error:
                    problems.append(error)
                    continue
                finally:
                    connection.hang_up()
                return self._remember(await decoded(answer), asked, everything=topics is None)
        raise _worst(problems, self._name)

    def _remember(self, answer: Metadata, asked: float, *, everything: bool) -> Metadata:
        if not answer.brokers:
            raise Unreachable(f"{self._name}: a broker answers but knows of no brokers yet: is it starting?")
        self._brokers = dict(answer.brokers)
        self._brokers_stale = False
        self._brokers_asked = asked
        self._controller = answer.controller
        for name in self._topics.keys() if everything else answer.topics.keys() & self._topics.keys():
            for partition in self._topics[name][1].partitions:
                self._leaders.pop(TopicPartition(name, partition.partition), None)
        if everything:
            self._topics.clear()
        self._topics.update((name, (asked, topic)) for name, topic in answer.topics.items())
        self._leaders.update(leaders(answer.topics.values()))
        return answer


def _fixed(server: str) -> Callable[[], Endpoint]:
    host, port, _ = get_ip_port_afi(server)
    return lambda: Endpoint(host=host, port=port)


def _shuffled(servers: Sequence[str]) -> list[str]:
    return random.sample(servers, len(servers))


def _worst(problems: list[ClusterError], name: str) -> ClusterError:
    """The most telling of several failed attempts: a refusal says more than silence."""
    if not problems:
        return Unreachable(f"{name}: no bootstrap server is set")
    refusals = [problem for problem in problems if type(problem) is not Unreachable]
    return (refusals or problems)[0]
