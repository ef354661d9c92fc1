"""What the file adds to answers: headers for all of them, and leave for pages of other origins to read them.

response.http.headers.config and access.control.allow.*, as Java's Jetty carries them out: an answer's own headers win,
a preflight is answered for the allowed origins, methods and the header Content-Type, and credentials (cookies, client
certificates) never count for another origin.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from email.utils import formatdate

from fastapi import FastAPI
from starlette.datastructures import MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mm2.core.answer_headers import HeaderRule
from mm2.core.listener_settings import ListenerSettings


def add_for_browsers(app: FastAPI, listening: ListenerSettings) -> None:
    """Let every answer of ``app`` be as ``listening`` asks, refusals and preflights too."""
    if (allowed := listening.cross_origin) is not None:
        app.add_middleware(
            AllowedOrigins, allows=allowed.allows, allow_methods=allowed.methods, allow_headers=("Content-Type",)
        )
    if listening.headers:
        app.add_middleware(AnswerHeaders, rules=listening.headers)


class AllowedOrigins(CORSMiddleware):
    """Starlette's, asking a predicate about an origin."""

    def __init__(
        self, app: ASGIApp, *, allows: Callable[[str], bool], allow_methods: Sequence[str], allow_headers: Sequence[str]
    ) -> None:
        super().__init__(app, allow_methods=allow_methods, allow_headers=allow_headers)
        self._allows = allows

    def is_allowed_origin(self, origin: str) -> bool:
        return self._allows(origin)


class AnswerHeaders:
    """Adds headers by rules; dates count from ``now``, in seconds since 1970."""

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
