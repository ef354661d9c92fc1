from __future__ import annotations

import socket

import httpx
import pytest

from mm2.rest.app import rest_app
from mm2.rest.internal.peers import Peers
from mm2.rest.server.allowed_hosts import is_allowed, own_names
from tests.contract.nodes import PLAIN, rest_context

NAMES = frozenset({"localhost", "mm2-1", "mm2-1.example.com", "*.ops.example.com"})


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("mm2-1", True),
        ("MM2-1.example.com:8083", True),
        ("mm2-1.example.com.", True),
        ("localhost:8083", True),
        ("127.0.0.1:8083", True),
        ("192.0.2.7", True),
        ("[2001:db8::1]:8083", True),
        ("[fe80::1%eth0]:8083", True),
        ("a.ops.example.com", True),
        ("a.b.ops.example.com", True),
        ("ops.example.com", False),
        ("evil.example:8083", False),
        ("mm2-1.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("xops.example.com", False),
        ("", False),
    ],
)
def test_names_of_a_node(host: str, allowed: bool) -> None:
    assert is_allowed(host, NAMES) is allowed
    assert is_allowed(host, {"*"})


async def test_own_names() -> None:
    names = await own_names("MM2-1.Example.com.", ["", "0.0.0.0", "rest.example.com"])
    assert {"localhost", "mm2-1.example.com", "rest.example.com", socket.gethostname().lower()} <= names
    assert not is_allowed("", names)


async def test_a_page_with_another_name_cannot_read_a_node() -> None:
    async with Peers(PLAIN) as peers:
        transport = httpx.ASGITransport(rest_app(rest_context(peers), hosts=NAMES))
        async with httpx.AsyncClient(transport=transport) as client:
            assert (await client.get("http://mm2-1:8083/flows")).status_code == 200
            for path in ("/flows", "/health", "/metrics", "/docs", "/nothing"):
                answer = await client.get(f"http://evil.example:8083{path}")
                assert answer.status_code == 421
                assert answer.json()["detail"].startswith("'evil.example' is not a name of this node: use its address")
