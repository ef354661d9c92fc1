"""Names by which a node may be addressed, against DNS rebinding.

A page of another site can make a browser inside the network read a node: its own name resolves to the node's address
then, and the browser takes both for one site. Such a request has that name in its Host header. So the name must be one
of the node's own, or of mm2.rest.allowed.hosts; addresses, which no page can be served from instead, are allowed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Collection
from http import HTTPStatus
from ipaddress import ip_address

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

log = logging.getLogger("mm2.rest")

RESOLVED_WITHIN_S = 2.0
"""Seconds for the node's full host name: a resolver that does not answer must not delay the start."""


async def own_names(advertised: str | None, listeners: Collection[str]) -> frozenset[str]:
    """Return the names of this machine: its host name, alone and with its domain, and ``advertised`` and the hosts of
    ``listeners``, if they are names."""
    host = socket.gethostname()
    names = {"localhost", host, host.partition(".")[0], *filter(None, (advertised, *listeners))}
    try:
        async with asyncio.timeout(RESOLVED_WITHIN_S):
            names.add(await asyncio.to_thread(socket.getfqdn))
    except TimeoutError:
        log.warning(
            "listeners: the full name of %s was not found within %.0f s: requests to it are rejected, unless it is in "
            "mm2.rest.allowed.hosts",
            host,
            RESOLVED_WITHIN_S,
        )
    return frozenset(name.rstrip(".").lower() for name in names)


def is_allowed(host: str, names: Collection[str]) -> bool:
    """Return whether a Host header, with or without a port, is an address or one of ``names`` (in lower case), which
    can begin with ``*.`` or be ``*``."""
    name = _name(host)
    try:
        ip_address(name.partition("%")[0])
    except ValueError:
        parents = (f"*{name[dot:]}" for dot, char in enumerate(name) if char == ".")
        return name in names or "*" in names or any(parent in names for parent in parents)
    return True


class AllowedHosts:
    """Middleware that rejects requests with another Host header: 421. Requests without one, which only HTTP/1.0 allows,
    do not come from a browser."""

    def __init__(self, app: ASGIApp, *, names: Collection[str]) -> None:
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = Headers(scope=scope).get("Host") if scope["type"] == "http" else None
        if host is None or is_allowed(host, self._names):
            await self._app(scope, receive, send)
            return
        detail = (
            f"{_name(host)!r:.100} is not a name of this node: use its address or its own host name, or add the name "
            "to mm2.rest.allowed.hosts in its file"
        )
        body = json.dumps({"detail": detail})
        answer = Response(body, HTTPStatus.MISDIRECTED_REQUEST, media_type="application/json")
        await answer(scope, receive, send)


def _name(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].rstrip(".").lower()
