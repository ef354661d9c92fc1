"""The systems that hold elections, as the conformance suite sees them."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import psutil

from mm2.core.client_settings import ClientSettings
from mm2.core.zookeeper_settings import ZooKeeperSettings
from mm2.election.kafka_group import GroupSettings, KafkaGroup
from mm2.election.protocol import Assign, Election, MemberInfo
from mm2.election.zookeeper import ZooKeeperElection
from mm2.kafka.cluster import Cluster
from tests.lab.cluster import KafkaCluster
from tests.lab.processes import LabProcess
from tests.lab.waiting import wait_until
from tests.lab.zookeeper import ZooKeeperServer

SESSION_MS = 4_000  # short, for tests that wait for its end; long enough for two busy cores
HEARTBEAT_MS = 200
STOPPED = 5.0  # seconds until all threads of a process have noticed
KAFKA_PROPERTIES = {"group.min.session.timeout.ms": "1000"}  # 6 s by default


class Store(Protocol):
    """Starts and stops the real thing, and makes members. ``where`` finds it again from another process."""

    kind: str
    where: str

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


@asynccontextmanager
async def elect(
    kind: str, where: str, name: str, info: MemberInfo, assign: Assign, *, session_ms: int = SESSION_MS
) -> AsyncIterator[Election]:
    """A member to be, that nobody has entered yet."""
    if kind == "zookeeper":
        path = f"/lab/{name}"
        settings = ZooKeeperSettings(
            servers=(where,), path=path, session_timeout_ms=session_ms, heartbeat_interval_ms=HEARTBEAT_MS
        )
        yield ZooKeeperElection(settings, info, assign)
        return
    client = ClientSettings(
        bootstrap_servers=(where,),
        alias="b",
        client_id=info.node_id,
        request_timeout_ms=5_000,
        reconnect_backoff_max_ms=200,
        retry_backoff_max_ms=200,
    )
    group = GroupSettings(group_id=name, session_timeout_ms=session_ms, heartbeat_interval_ms=HEARTBEAT_MS)
    async with Cluster(client) as cluster:
        yield KafkaGroup(cluster, group, info, assign)


def freeze(process: LabProcess) -> None:
    """Stop a process as a machine that hangs does: its connections stay, and nobody answers."""
    process.signal(signal.SIGSTOP)
    watched = psutil.Process(process.pid)
    wait_until(lambda: watched.status() == psutil.STATUS_STOPPED, STOPPED, f"{process.name} is frozen")


def thaw(process: LabProcess) -> None:
    """Let it go on."""
    process.signal(signal.SIGCONT)
