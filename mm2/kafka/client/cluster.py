"""A client of one Kafka cluster: its brokers, partition leaders and coordinators, and requests to the right broker."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from copy import copy
from enum import IntEnum
from typing import Any, Self

from aiokafka.conn import get_ip_port_afi
from aiokafka.protocol.coordination import FindCoordinatorRequest

from mm2.core.access.rights import on_group, on_transactional_id
from mm2.core.masking import hide
from mm2.core.naming.names import TopicPartition
from mm2.core.settings.client import ClientSettings, SecurityProtocol
from mm2.core.topics.acls import Operation
from mm2.kafka.backoff import Backoff
from mm2.kafka.chunks import chunks
from mm2.kafka.client.metadata import Broker, Metadata, PartitionLeader, TopicInfo, leaders
from mm2.kafka.connection.connecting import AUTHENTICATION, Authentication
from mm2.kafka.connection.connection import Connection
from mm2.kafka.connection.diagnosis import BrokerEndpoint
from mm2.kafka.connection.security import shared_context
from mm2.kafka.errors import (
    ClusterClosed,
    ClusterError,
    NoLeader,
    NotSupported,
    SecuritySettingsInvalid,
    Unreachable,
    check,
)
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.metadata_request import MetadataRequest

log = logging.getLogger(__name__)

_TOPICS_A_REQUEST = 500  # keeps the response small for the broker; a large one is decoded in a thread here


class CoordinatorKind(IntEnum):
    """Key types of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1


class Cluster:
    """An async context manager. All methods raise ClusterError; they retry only where documented.

    A. No request of this class creates a topic.
    B. There is one connection per broker and purpose. A broker serves one request of a connection at a time, so long
       polls and produce requests use purposes of their own.
    C. Leaders are cached for metadata.max.age.ms, until ``forget``, or until their broker cannot be reached. Concurrent
       refreshes share one request and its failure; requests are at least the backoff apart.
    """

    def __init__(
        self,
        settings: ClientSettings,
        *,
        client_id: str | None = None,
        may_send: Callable[[], bool] = lambda: True,
        authentication: Authentication = AUTHENTICATION,
    ) -> None:
        """``may_send``: called before each request is written; while it returns False, requests raise LeaseExpired."""
        hide(*settings.secrets)
        self.settings = settings
        self._authentication = authentication
        self._may_send = may_send
        self.group_coordinators: dict[str, int] = {}  # cache, maintained by `mm2.kafka.groups.group_coordinators`
        self._client_id = client_id or settings.client_id
        self._ssl_context: ssl.SSLContext | None = None
        self._connections: dict[tuple[int, str], Connection] = {}
        self._bootstrap: dict[str, Connection] = {}
        self._bootstrapping = asyncio.Lock()
        self._brokers: dict[int, Broker] = {}
        self._brokers_stale = False
        self._controller: int | None = None
        self._topics: dict[str, tuple[float, TopicInfo]] = {}  # with the time of the request
        self._leaders: dict[TopicPartition, PartitionLeader] = {}
        self._brokers_asked = 0.0
        self._refreshing = asyncio.Lock()
        self._wanted: set[str] = set()
        self._backoff = Backoff.for_retries(settings)
        self._next_refresh = 0.0
        self._refresh_failure: tuple[float, ClusterError] | None = None  # with the time of the request
        self._closed = False
        self.round_trip_s: float | None = None  # until the quickest answer so far
        self.throttled_s = 0.0  # the sum of the throttle times in all answers to Fetch and Produce

    async def __aenter__(self) -> Self:
        """Load certificates; connections are opened later. Raises SecuritySettingsInvalid."""
        if self.settings.security_protocol in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL):
            try:
                self._ssl_context = await asyncio.to_thread(shared_context, self.settings.tls)
            except SecuritySettingsInvalid as error:
                raise SecuritySettingsInvalid(f"{self._name}: {error}") from error
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; requests in flight fail with ConnectionLost."""
        self._closed = True
        connections = [*self._connections.values(), *self._bootstrap.values()]
        await asyncio.gather(*(connection.close() for connection in connections))

    def abort_connections(self) -> None:
        """Close every connection and discard what is not sent yet; later requests reopen them."""
        for connection in (*self._connections.values(), *self._bootstrap.values()):
            connection.abort()

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
        """Send one of aiokafka's (or our) request objects to a broker and return the response struct.

        ``timeout_ms`` defaults to request.timeout.ms and excludes the time to connect. Requests for one broker and
        purpose are sent in the order of the calls.
        """
        connection = self._connections.get((node_id, purpose))
        if connection is None or not connection.connected:
            connection = await self._connection(node_id, purpose)
        timeout = (self.settings.request_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        sent_at = time.monotonic()
        try:
            answer = await connection.send(request, timeout=timeout, expect_response=expect_response)
        except Unreachable:
            self._brokers_stale = True
            self._leaders = {one: leader for one, leader in self._leaders.items() if leader.node_id != node_id}
            raise
        if answer is not None:
            self._observe(answer, time.monotonic() - sent_at)
        return answer

    def _observe(self, answer: Any, elapsed: float) -> None:
        if self.round_trip_s is None or elapsed < self.round_trip_s:
            self.round_trip_s = elapsed
        self.throttled_s += getattr(answer, "throttle_ms", 0) / 1000

    def round_trip_of(self, node_id: int, purpose: str) -> float | None:
        """Return the round trip to a broker in seconds, without its own work; None: unknown.

        Both measures are lower bounds: TCP's is that to a proxy if there is one, and the quickest answer is that of the
        nearest broker.
        """
        connection = self._connections.get((node_id, purpose))
        by_tcp = None if connection is None else connection.round_trip_s
        known = [one for one in (by_tcp, self.round_trip_s) if one is not None]
        return max(known, default=None)

    def disconnect(self, node_id: int, purpose: str) -> None:
        """Close the connection to a broker for ``purpose``: requests in flight fail, and the next one reopens it."""
        if (connection := self._connections.get((node_id, purpose))) is not None:
            connection.disconnect()

    async def versions(self, node_id: int, *, purpose: str = "default") -> dict[int, tuple[int, int]]:
        """Return the (lowest, highest) version of each API key that the broker supports."""
        return await (await self._connection(node_id, purpose)).versions()

    async def any_node(self) -> int:
        """Return a broker, if possible one that is connected."""
        if not self._brokers:
            await self.refresh(())
        return next(iter(self._nodes_by_health()))

    async def controller(self) -> int:
        """Return the broker that creates topics. (KRaft names any broker, which forwards the request.)"""
        await self.refresh(())
        if self._controller is None:
            raise Unreachable(f"{self._name}: the cluster has no controller")
        return self._controller

    async def coordinator(self, kind: CoordinatorKind, key: str, *, operation: Operation = Operation.DESCRIBE) -> int:
        """Look up the broker that coordinates group or transactional id ``key``. Not cached.

        ``operation`` is what the error of a missing right names: what the caller needs, if that implies DESCRIBE.
        """
        answer = await self.send(await self.any_node(), FindCoordinatorRequest(key, int(kind)))
        on_key = on_group if kind is CoordinatorKind.GROUP else on_transactional_id
        right = on_key(operation, key, self.settings.alias)
        check(answer.error_code, f"find the coordinator of {key}", getattr(answer, "error_message", None), right)
        node_id = int(answer.coordinator_id)
        if node_id not in self._brokers:
            self._brokers[node_id] = Broker(node_id=node_id, host=answer.host, port=answer.port)
        return node_id

    # -- metadata

    async def metadata(self, topics: Collection[str] | None) -> Metadata:
        """Request and cache the metadata of these topics, of all topics (None), or of the brokers only (empty).

        A topic that does not exist has error 3 in the response and is not created.
        """
        if topics is None or len(topics) <= _TOPICS_A_REQUEST:
            return await self._ask(None if topics is None else sorted(topics))
        found: dict[str, TopicInfo] = {}
        for names in chunks(sorted(topics), _TOPICS_A_REQUEST):
            answer = await self._ask(names)
            found.update(answer.topics)
        return Metadata(
            cluster_id=answer.cluster_id, controller=answer.controller, brokers=answer.brokers, topics=found
        )

    async def refresh(self, topics: Iterable[str]) -> None:
        """Refresh the metadata of these topics (empty: of the brokers only); concurrent calls share a request."""
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
            requested = time.monotonic()
            try:
                await self.metadata(names)
            except ClusterError as error:
                self._refresh_failure = (requested, error)
                raise
            finally:
                self._next_refresh = time.monotonic() + self._backoff.next()
            if self._all_led(names):
                self._backoff.reset()

    async def leader(self, partition: TopicPartition) -> PartitionLeader:
        """Return the partition's leader, from the cache if it is fresh. Raises NoLeader."""
        found = (await self.leaders([partition]))[partition]
        if isinstance(found, NoLeader):
            raise found
        return found

    async def leaders(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, PartitionLeader | NoLeader]:
        """Return all their leaders, from the cache or by one request for those that are unknown or outdated."""
        unknown = {one.topic for one in partitions if self._stale(one.topic) or one not in self._leaders}
        if unknown:
            await self.refresh(unknown)
        return {one: self._leaders.get(one) or self._no_leader(one) for one in partitions}

    async def by_leader(
        self, partitions: Collection[TopicPartition]
    ) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, ClusterError]]:
        """Return the partitions of each leader, and the errors of those without a known leader. Does not raise."""
        led: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        unknown: dict[TopicPartition, ClusterError] = {}
        try:
            found = await self.leaders(partitions)
        except ClusterError as error:
            return {}, dict.fromkeys(partitions, error)
        for one, leader in found.items():
            if isinstance(leader, PartitionLeader):
                led[leader.node_id].append(one)
            else:
                unknown[one] = leader
        return led, unknown

    def cached_leader(self, partition: TopicPartition) -> PartitionLeader | None:
        """Return the leader from the cache, without a request."""
        return self._leaders.get(partition)

    def cached_topic(self, topic: str) -> TopicInfo | None:
        """Return the topic from the cache, without a request."""
        entry = self._topics.get(topic)
        return entry[1] if entry else None

    def forget(self, partition: TopicPartition) -> None:
        """Drop the cached leader: a broker reported that it does not lead this partition."""
        self._leaders.pop(partition, None)

    def forget_topic(self, topic: str) -> None:
        """Drop the cached metadata of a topic, which was possibly recreated since."""
        self._topics.pop(topic, None)
        for partition in [one for one in self._leaders if one.topic == topic]:
            del self._leaders[partition]

    # -- inside

    @property
    def _name(self) -> str:
        return f"cluster {self.settings.alias}" if self.settings.alias else ",".join(self.settings.bootstrap_servers)

    def _no_leader(self, partition: TopicPartition) -> NoLeader:
        topic = self.cached_topic(partition.topic)
        if topic is not None and topic.error:
            return NoLeader(partition, topic.error, self.settings.alias)
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
        """Return a connection, after a metadata refresh if needed; an open one without waiting, to keep the order."""
        if self._closed:
            raise ClusterClosed(f"{self._name}: the client is closed")
        connection = self._connections.get((node_id, purpose))
        if connection is not None and connection.connected:
            return connection
        if self._brokers_stale or node_id not in self._brokers:
            await self.refresh(())
        if node_id not in self._brokers:
            raise Unreachable(f"{self._name}: broker {node_id} is not part of the cluster")
        return self._connection_to(node_id, purpose)

    def _connection_to(self, node_id: int, purpose: str) -> Connection:
        connection = self._connections.get((node_id, purpose))
        if connection is None:
            connection = self._connections[node_id, purpose] = self._new_connection(lambda: self._advertised(node_id))
        return connection

    def _advertised(self, node_id: int) -> BrokerEndpoint | None:
        broker = self._brokers.get(node_id)
        return BrokerEndpoint(host=broker.host, port=broker.port, advertised=True) if broker else None

    def _new_connection(self, endpoint: Callable[[], BrokerEndpoint | None]) -> Connection:
        return Connection(
            endpoint,
            self.settings,
            client_id=self._client_id,
            ssl_context=self._ssl_context,
            may_send=self._may_send,
            authentication=self._authentication,
        )

    def _nodes_by_health(self) -> list[int]:
        """Return the brokers at random, connected ones first, those whose last attempt failed at the end."""

        def rank(node_id: int) -> tuple[int, float]:
            connection = self._connections.get((node_id, "default"))
            if connection is None:
                return 1, random.random()  # noqa: S311 - spreads load, hides nothing
            return (0 if connection.connected else 2 if connection.failing else 1), random.random()  # noqa: S311

        return sorted(self._brokers, key=rank)

    async def _ask(self, topics: list[str] | None) -> Metadata:
        if self._closed:
            raise ClusterClosed(f"{self._name}: the client is closed")
        for node_id in self._nodes_by_health():
            answer = await self._ask_one(self._connection_to(node_id, "default"), topics)
            if isinstance(answer, Metadata):
                return answer
        return await self._ask_bootstrap(topics)

    async def _ask_bootstrap(self, topics: list[str] | None) -> Metadata:
        problems: list[ClusterError] = []
        async with self._bootstrapping:
            for server in _shuffled(self.settings.bootstrap_servers):
                connection = self._bootstrap.get(server)
                if connection is None:
                    connection = self._bootstrap[server] = self._new_connection(_fixed(server))
                try:
                    answer = await self._ask_one(connection, topics)
                finally:
                    connection.disconnect()
                if isinstance(answer, Metadata):
                    return answer
                problems.append(answer)
        raise _worst(problems, self._name)

    async def _ask_one(self, connection: Connection, topics: list[str] | None) -> Metadata | ClusterError:
        """Return the broker's metadata, or the error because of which another broker should be tried."""
        asked = time.monotonic()
        try:
            answer = await connection.send(MetadataRequest(topics), timeout=self.settings.request_timeout_ms / 1000)
        except (ClusterClosed, NotSupported):
            raise
        except ClusterError as error:
            log.debug("%s: no metadata: %s", self._name, error)
            return error
        return self._remember(answer, asked, everything=topics is None)

    def _remember(self, answer: Metadata, asked: float, *, everything: bool) -> Metadata:
        if not answer.brokers:
            raise Unreachable(f"{self._name}: the metadata from a broker lists no brokers: is it still starting?")
        if answer.brokers != self._brokers:
            log.debug("%s: brokers %s, controller %s", self._name, sorted(answer.brokers), answer.controller)
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


def _fixed(server: str) -> Callable[[], BrokerEndpoint]:
    host, port, _ = get_ip_port_afi(server)
    return lambda: BrokerEndpoint(host=host, port=port)


def _shuffled(servers: Sequence[str]) -> list[str]:
    return random.sample(servers, len(servers))


def _worst(problems: list[ClusterError], name: str) -> ClusterError:
    """Return the most informative of several errors: a rejection rather than a missing answer."""
    if not problems:
        return Unreachable(f"{name}: bootstrap.servers is empty")
    refusals = [problem for problem in problems if type(problem) is not Unreachable]
    return (refusals or problems)[0]
