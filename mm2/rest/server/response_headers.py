"""Response headers and cross-origin access: response.http.headers.config and access.control.allow.*.

As in Java's Jetty, headers that a response has already take precedence, preflight requests are answered for the allowed
origins, methods and the header Content-Type, and other origins cannot use credentials (cookies, client certificates).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from email.utils import formatdate

from fastapi import FastAPI
from starlette.datastructures import MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mm2.core.settings.listener import ListenerSettings
from mm2.core.settings.response_headers import HeaderRule


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
