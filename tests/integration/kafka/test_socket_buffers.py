"""Sizes of socket buffers on connections to a real broker. (With TLS and SASL: test_security.py.)"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.offsets import OffsetSpec, list_offsets
from mm2.kafka.connection.sockets import SocketBuffers, open_transport
from mm2.kafka.errors import Unreachable
from tests.integration.kafka.clients import connected
from tests.lab.cluster import KafkaCluster
from tests.lab.ports import HOST, release_port, reserve_port

SMALL = 60_000  # bytes; below every system's limit
HUGE = 1 << 30  # bytes; above the default limit
BOTH: dict[str, Any] = {"send_buffer_bytes": SMALL, "receive_buffer_bytes": SMALL + 2}


def sockets(cluster: Cluster) -> list[Any]:
    """The sockets of the open connections."""
    live = [one._live for one in cluster._connections.values() if one._live is not None]
    return [one.connection._writer.get_extra_info("socket") for one in live]


def sizes(cluster: Cluster) -> set[tuple[int, int]]:
    return {
        (one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF), one.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))
        for one in sockets(cluster)
    }


def granted(asked: int, option: int) -> int:
    """What the kernel grants on another socket."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, option, asked)
        return other.getsockopt(socket.SOL_SOCKET, option)


async def used(cluster: Cluster, topic: str) -> None:
    """Open two connections to the broker, for different purposes."""
    answer = await list_offsets(cluster, [TopicPartition(topic, 0)], OffsetSpec.LATEST)
    assert answer == {TopicPartition(topic, 0): 0}
    await cluster.metadata([])


async def test_buffers_have_the_sizes_of_the_settings(
    cluster_a: KafkaCluster, caplog: pytest.LogCaptureFixture, unique: Any
) -> None:
    topic = cluster_a.create_topic(unique("buffers"))
    caplog.set_level(logging.INFO, "mm2.kafka.connection.sockets")
    client = unique("client")
    expected = granted(SMALL, socket.SO_SNDBUF), granted(SMALL + 2, socket.SO_RCVBUF)
    for _ in range(2):
        async with connected(cluster_a, client_id=client, **BOTH) as cluster:
            await used(cluster, topic)
            assert sizes(cluster) == {expected}
    assert [one.getMessage() for one in caplog.records] == [
        f"cluster {cluster_a.name}: client {client}: send.buffer.bytes: asked for {SMALL}, the kernel granted"
        f" {expected[0]}",
        f"cluster {cluster_a.name}: client {client}: receive.buffer.bytes: asked for {SMALL + 2}, the kernel granted"
        f" {expected[1]}",
    ]


async def test_one_buffer_and_more_than_the_limit(
    cluster_a: KafkaCluster, caplog: pytest.LogCaptureFixture, unique: Any
) -> None:
    topic = cluster_a.create_topic(unique("buffers"))
    caplog.set_level(logging.INFO, "mm2.kafka.connection.sockets")
    async with connected(cluster_a, client_id=unique("client"), receive_buffer_bytes=HUGE) as cluster:
        await used(cluster, topic)
        ((_, receive),) = sizes(cluster)
    assert receive == granted(HUGE, socket.SO_RCVBUF) < HUGE
    (record,) = caplog.records
    assert record.getMessage().endswith(
        f"receive.buffer.bytes: asked for {HUGE}, the kernel granted {receive}: raise net.core.rmem_max"
    )


async def test_default_leaves_the_buffers_to_the_kernel(cluster_a: KafkaCluster, unique: Any) -> None:
    topic = cluster_a.create_topic(unique("buffers"))
    async with connected(cluster_a) as cluster:
        await used(cluster, topic)
        assert (granted(SMALL, socket.SO_SNDBUF), granted(SMALL + 2, socket.SO_RCVBUF)) not in sizes(cluster)


async def test_addresses_are_tried_in_their_order(
    cluster_a: KafkaCluster, unique: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = cluster_a.create_topic(unique("buffers"))
    closed = reserve_port()
    loop = asyncio.get_running_loop()
    resolve = loop.getaddrinfo

    async def two_addresses(host: str, port: int, **options: Any) -> Any:
        found = await resolve(host, port, **options)
        family, kind, protocol, name, _ = found[0]
        return [(family, kind, protocol, name, (HOST, closed)), *found]

    monkeypatch.setattr(loop, "getaddrinfo", two_addresses)
    try:
        async with connected(cluster_a, **BOTH) as cluster:
            await used(cluster, topic)
            assert len(sizes(cluster)) == 1
    finally:
        release_port(closed)


async def test_closed_port_and_unknown_host_are_reported_as_without_buffers(cluster_a: KafkaCluster) -> None:
    closed = reserve_port()
    try:
        for server in (f"{HOST}:{closed}", "no-such-host.invalid:9092"):
            texts = []
            for buffers in ({}, BOTH):
                async with connected(cluster_a, bootstrap_servers=(server,), **buffers) as cluster:
                    with pytest.raises(Unreachable) as caught:
                        await cluster.metadata([])
                    texts.append(str(caught.value))
            assert texts[0] == texts[1]
    finally:
        release_port(closed)


async def test_addresses_of_both_families(unique: Any) -> None:
    """IPv6 only if this machine has it."""
    for host in ("127.0.0.1", "::1"):
        try:
            server = await asyncio.start_server(lambda _, writer: writer.close(), host, 0)
        except OSError:
            continue
        async with server:
            port = server.sockets[0].getsockname()[1]
            buffers = SocketBuffers(client=unique("client"), send=SMALL, receive=SMALL)
            closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            protocol = _Until(closed)
            transport = await open_transport(protocol, host, port, context=None, buffers=buffers)
            assert transport.get_extra_info("peername")[:2] == (host, port)
            opened = transport.get_extra_info("socket")
            assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == granted(SMALL, socket.SO_SNDBUF)
            await closed


class _Until(asyncio.Protocol):
    """Completes a future when the connection is closed."""

    def __init__(self, closed: asyncio.Future[None]) -> None:
        self._closed = closed

    def connection_lost(self, error: Exception | None) -> None:
        self._closed.set_result(None)
