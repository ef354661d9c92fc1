"""The REST application behind ``listeners``, and the table of its endpoints.

/flows and the groups of a flow are merged from all of its nodes; /health and /metrics are the node's own. An endpoint
is one module and one line of `ENDPOINTS`.

Large responses are built in worker threads: rendering the metrics of 10,000 partitions takes over half a second of CPU,
which must not delay leases and group heartbeats on the event loop.
"""

from __future__ import annotations

import pkgutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from email.utils import formatdate
from importlib.metadata import version

from fastapi import Depends, FastAPI, Request
from starlette.datastructures import MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mm2.core.settings.listener import ListenerSettings
from mm2.core.settings.response_headers import HeaderRule
from mm2.rest.endpoint import Endpoint, RestContext
from mm2.rest.internal.share_api import share_router
from mm2.rest.internal.signed_calls import add_refusals
from mm2.rest.public.responses import HeadAsGet
from mm2.rest.server.allowed_hosts import AllowedHosts


def add_response_headers(app: FastAPI, listening: ListenerSettings) -> None:
    """Apply ``listening`` to every response of ``app``, including errors and preflight requests."""
    if (allowed := listening.cross_origin) is not None:
        app.add_middleware(
            AllowedOrigins, allows=allowed.allows, allow_methods=allowed.methods, allow_headers=("Content-Type",)
        )
    if listening.headers:
        app.add_middleware(ResponseHeaders, rules=listening.headers)


class AllowedOrigins(CORSMiddleware):
    """Starlette's CORS middleware with a predicate for origins."""

    def __init__(
        self, app: ASGIApp, *, allows: Callable[[str], bool], allow_methods: Sequence[str], allow_headers: Sequence[str]
    ) -> None:
        super().__init__(app, allow_methods=allow_methods, allow_headers=allow_headers)
        self._allows = allows

    def is_allowed_origin(self, origin: str) -> bool:
        return self._allows(origin)


class ResponseHeaders:
    """Adds headers by rules; dates are relative to ``now``, in seconds since 1970."""

    def __init__(self, app: ASGIApp, *, rules: Sequence[HeaderRule], now: Callable[[], float] = time.time) -> None:
        self._app = app
        self._rules = rules
        self._now = now

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._add(MutableHeaders(scope=message))
            await send(message)

        await self._app(scope, receive, with_headers)

    def _add(self, headers: MutableHeaders) -> None:
        own = {name.lower() for name in headers}
        for rule in self._rules:
            if rule.name.lower() in own:
                continue
            value = rule.value
            if rule.date_in_ms is not None:
                value = formatdate(self._now() + rule.date_in_ms / 1000, usegmt=True)
            if rule.adds:
                headers.append(rule.name, value)
            else:
                headers[rule.name] = value


ENDPOINTS: Mapping[str, str] = {
    "health": "mm2.rest.public.health:ENDPOINT",
    "node": "mm2.rest.public.node:ENDPOINT",
    "flows": "mm2.rest.public.flows:ENDPOINT",
    "groups": "mm2.rest.public.groups:ENDPOINT",
    "losses": "mm2.rest.public.losses:ENDPOINT",
    "partitions": "mm2.rest.public.partitions:ENDPOINT",
    "queries": "mm2.rest.public.queries:ENDPOINT",
    "translate": "mm2.rest.public.translate:ENDPOINT",
    "metrics": "mm2.rest.public.metrics:ENDPOINT",
    "docs": "mm2.rest.public.docs:ENDPOINT",
    "commands": "mm2.rest.public.commands:ENDPOINT",
}
"""Endpoint name to import string of the `Endpoint`."""


def rest_app(
    context: RestContext,
    listening: ListenerSettings | None = None,
    *,
    hosts: Collection[str] | None = None,
    endpoints: Mapping[str, str] = ENDPOINTS,
) -> FastAPI:
    """Return the application of one node. ``listening``: response headers and allowed origins; ``hosts``: names of the
    node as in `mm2.rest.server.allowed_hosts`, None: any name."""
    app = FastAPI(
        title="mm2",
        version=version("mm2"),
        description="State of a MirrorMaker 2 node and its flows. Offsets are those of the source cluster.",
        docs_url=None,  # FastAPI's own pages load scripts from a CDN, which is unreachable from many broker networks
        redoc_url=None,
    )
    app.add_middleware(HeadAsGet)
    if hosts is not None:
        app.add_middleware(AllowedHosts, names=hosts)
    if listening is not None:
        add_response_headers(app, listening)
    add_refusals(app)
    loaded: list[Endpoint] = [pkgutil.resolve_name(name) for name in endpoints.values()]

    async def with_token(request: Request) -> None:
        context.gate.may_read(request)

    for endpoint in loaded:
        checks = () if endpoint.needs_no_token else (Depends(with_token),)
        app.include_router(endpoint.router(context), dependencies=checks)
    shares = [endpoint.share for endpoint in loaded if endpoint.share is not None]
    app.include_router(share_router(context.status, context.leader_contexts, shares, context.story))
    return app
