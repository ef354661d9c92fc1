from __future__ import annotations

import pytest

from mm2.rest.internal.peers import FORM, rejection

OWN = "https://mm2-1.example.com:8443"
LOOPBACK = "leads to the loopback interface of this machine: set rest.advertised.host.name on that node"
METADATA = "leads to 169.254.169.254, which is not an address of a node"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://192.0.2.1:8443", None),
        ("http://192.0.2.1:8083/", None),
        ("http://[2001:db8::1]:8083", None),
        ("http://no-such-host.invalid:8083", None),
        ("http://169.254.169.254", METADATA),
        ("http://[::ffff:169.254.169.254]:80", METADATA),
        ("http://2852039166:80", METADATA),
        ("http://[fe80::1%25eth0]:8083", "leads to fe80::1, which is not an address of a node"),
        ("http://0.0.0.0:8083", "leads to 0.0.0.0, which is not an address of a node"),
        ("http://127.0.0.1:8083", LOOPBACK),
        ("http://localhost:8083", LOOPBACK),
        ("http://192.0.2.1:8083/admin", FORM),
        ("http://192.0.2.1:8083?a=b", FORM),
        ("http://user:password@192.0.2.1:8083", FORM),
        ("file:///etc/passwd", FORM),
        ("http://", FORM),
        ("http://[", FORM),
        ("http://192.0.2.1:99999", FORM),
        ("http://mm2..example.com:8083", FORM),
        (f"http://{'a' * 64}:8083", FORM),
    ],
)
async def test_urls_of_other_nodes(url: str, why: str | None) -> None:
    assert await rejection(url, OWN) == why


async def test_nodes_of_one_machine() -> None:
    assert await rejection("http://127.0.0.1:8084", "http://127.0.0.1:8083") is None
    assert await rejection("http://localhost:8084", "http://127.0.0.1:8083") is None
    assert await rejection("http://169.254.169.254", "http://127.0.0.1:8083") == METADATA
