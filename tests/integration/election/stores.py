"""The election backends, as used by the conformance suite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from mm2.core.settings.client import ClientSettings
from mm2.core.settings.zookeeper import ZooKeeperSettings
from mm2.election.group_guarded_election import choose_election
from mm2.election.kafka.kafka_group import GroupSettings
from mm2.election.protocol import Assign, Election, MemberInfo
from mm2.election.zookeeper.zookeeper_election import ZooKeeperElection
from mm2.kafka.client.cluster import Cluster
from tests.lab.cluster import KafkaCluster
from tests.lab.processes import LabProcess
from tests.lab.zookeeper import ZooKeeperServer

SESSION_MS = 4_000  # short, for tests that wait for session expiry; long enough for two busy cores
LONG_SESSION_MS = 40_000  # of a ZooKeeper whose members hold a group: its expiry comes too late for any test
HEARTBEAT_MS = 200
KAFKA_PROPERTIES = {"group.min.session.timeout.ms": "1000"}  # 6 s by default


class Place(Protocol):
    """Where members meet: arguments of `elect`, also for other processes."""

    kind: str
    where: str


class Store(Place, Protocol):
    """Starts and stops a real server, at the address ``where``."""

    @property
    def process(self) -> LabProcess: ...

    def restart(self) -> None: ...


class KafkaStore:
    def __init__(self, cluster: KafkaCluster) -> None:
        self.kind = "kafka"
        self.where = cluster.bootstrap
        self._broker = cluster.broker(1)

    @property
    def process(self) -> LabProcess:
        return self._broker.process

    def restart(self) -> None:
        self._broker.restart()


class ZooKeeperStore:
    def __init__(self, server: ZooKeeperServer) -> None:
        self.kind = "zookeeper"
        self.where = server.address
        self._server = server

    @property
    def process(self) -> LabProcess:
        return self._server.process

    def restart(self) -> None:
        if self.process.running:
            self._server.stop()
        self._server.start()


class HeldPlace:
    """ZooKeeper and the Kafka group that its members hold. ``where`` has the addresses of both."""

    def __init__(self, cluster: KafkaCluster, zookeeper: ZooKeeperServer) -> None:
        self.kind = "held"
        self.where = f"{cluster.bootstrap} {zookeeper.address}"


@asynccontextmanager
async def elect(
    kind: str, where: str, name: str, info: MemberInfo, assign: Assign, *, session_ms: int = SESSION_MS
) -> AsyncIterator[Election]:
    """Create a member that has not joined yet."""
    if kind == "zookeeper":
        path = f"/lab/{name}"
        settings = ZooKeeperSettings(
            servers=(where,), path=path, session_timeout_ms=session_ms, heartbeat_interval_ms=HEARTBEAT_MS
        )
        yield ZooKeeperElection(settings, info, assign)
        return
    bootstrap, *servers = where.split()
    client = ClientSettings(
        bootstrap_servers=(bootstrap,),
        alias="b",
        client_id=info.node_id,
        request_timeout_ms=5_000,
        reconnect_backoff_max_ms=200,
        retry_backoff_max_ms=200,
    )
    group = GroupSettings(group_id=name, session_timeout_ms=session_ms, heartbeat_interval_ms=HEARTBEAT_MS)
    async with Cluster(client) as cluster:
        backend = None
        if servers:
            backend = ZooKeeperSettings(
                servers=tuple(servers),
                path=f"/held/{name}",
                session_timeout_ms=LONG_SESSION_MS,
                heartbeat_interval_ms=HEARTBEAT_MS,
            )
        yield choose_election(backend, cluster, group, info, assign)
