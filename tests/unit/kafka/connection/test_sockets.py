from __future__ import annotations

import socket
import sys

import pytest

from mm2.core.settings.client import ClientSettings
from mm2.kafka.connection.sockets import SocketBuffers, granted_report, round_trip_s

RECEIVE, SEND = "receive.buffer.bytes", "send.buffer.bytes"


@pytest.mark.parametrize(
    ("key", "asked", "granted", "platform", "advice"),
    [
        (RECEIVE, 4_194_304, 425_984, "linux", ": raise net.core.rmem_max"),
        (SEND, 4_194_304, 425_984, "linux", ": raise net.core.wmem_max"),
        (RECEIVE, 300_000, 425_984, "linux", ": raise net.core.rmem_max"),  # the double of 212,992
        (RECEIVE, 65_536, 131_072, "linux", ""),
        (RECEIVE, 65_536, 65_536, "darwin", ""),
        (SEND, 65_536, 9_216, "darwin", ": raise the limit of the operating system"),
    ],
)
def test_report_names_the_limit_if_it_applies(key: str, asked: int, granted: int, platform: str, advice: str) -> None:
    assert granted_report(key, asked, granted, platform) == (
        f"{key}: asked for {asked}, the kernel granted {granted}{advice}"
    )


def test_buffers_of_a_client() -> None:
    settings = ClientSettings(bootstrap_servers=("b1:9092",), alias="A", receive_buffer_bytes=7)
    buffers = SocketBuffers.of(settings, "A->B|consumer")
    assert buffers == SocketBuffers(client="cluster A: client A->B|consumer", send=-1, receive=7)
    assert not buffers.are_default
    without = SocketBuffers.of(ClientSettings(bootstrap_servers=("b1:9092", "b2:9092")), "tool")
    assert (without.client, without.are_default) == ("b1:9092,b2:9092: client tool", True)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="TCP_INFO is Linux's")
def test_round_trip_of_tcp() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as opened:
        measured = round_trip_s(opened)
        assert measured is not None
        assert 0 <= measured < 1
    assert round_trip_s(opened) is None, "it is closed"
    with socket.socket() as unconnected:
        assert round_trip_s(unconnected) is None
    assert round_trip_s(None) is None
