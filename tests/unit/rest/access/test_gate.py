from __future__ import annotations

import pytest
from fastapi import HTTPException, Request

from mm2.rest.access.gate import AccessGate

TOKEN = "open-sesame-open"


def request(scheme: str, client: tuple[str, int] | None, token: str = TOKEN) -> Request:
    headers = [
        (b"authorization", f"bearer  {token} ".encode()),
        (b"x-forwarded-for", b"127.0.0.1"),
        (b"x-forwarded-proto", b"https"),
        (b"host", b"127.0.0.1"),
    ]
    return Request(
        {
            "type": "http",
            "scheme": scheme,
            "client": client,
            "headers": headers,
            "path": "/",
            "server": ("127.0.0.1", 8083),
            "query_string": b"",
        }
    )


@pytest.mark.parametrize(
    ("scheme", "host", "taken"),
    [
        ("http", "127.0.0.1", True),
        ("http", "127.8.8.8", True),
        ("http", "::1", True),
        ("http", "::ffff:127.0.0.1", True),
        ("http", "10.0.0.1", False),
        ("http", "::ffff:10.0.0.1", False),
        ("http", "fe80::1%eth0", False),
        ("https", "10.0.0.1", True),
    ],
)
def test_connections(scheme: str, host: str, taken: bool) -> None:
    gate = AccessGate(enabled=True, token=TOKEN)
    if taken:
        gate.may_command(request(scheme, (host, 1234)))
        return
    with pytest.raises(HTTPException, match="from the node's own machine only"):
        gate.may_command(request(scheme, (host, 1234)))


def test_connection_without_an_address_is_rejected() -> None:
    with pytest.raises(HTTPException, match="own machine only"):
        AccessGate(enabled=True, token=TOKEN).may_command(request("http", None))


def test_token_is_required_over_https() -> None:
    with pytest.raises(HTTPException, match=r"wrong token: it must be one of mm2\.rest\.tokens\.file"):
        AccessGate(enabled=True, token=TOKEN).may_command(request("https", ("10.0.0.1", 1), TOKEN.upper()))
