"""Routes that check a request by its headers before they read its body, and read no more of it than a limit.

FastAPI reads and parses the whole body of a request before it calls any dependency.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import HTTPException, Request, Response, status
from fastapi.routing import APIRoute
from starlette.types import Message


def gated_route(gate: Callable[[Request], None], largest: int) -> type[APIRoute]:
    """Return a class of routes. ``gate`` raises HTTPException for a request that it rejects; ``largest``: maximum bytes
    of a body."""

    class GatedRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def checked(request: Request) -> Response:
                gate(request)
                return await handle(with_limited_body(request, largest))

            return checked

    return GatedRoute


def with_limited_body(request: Request, largest: int) -> Request:
    """Return ``request`` with a body of which at most ``largest`` bytes are read; then HTTPException is raised, with
    status 413. A length in the headers is checked at once."""
    announced = request.headers.get("Content-Length", "")
    if announced.isdecimal() and int(announced) > largest:
        raise _too_large(largest)
    read = 0

    async def receive() -> Message:
        nonlocal read
        message = await request.receive()
        read += len(message.get("body", b""))
        if read > largest:
            raise _too_large(largest)
        return message

    return Request(request.scope, receive)


def _too_large(largest: int) -> HTTPException:
    return HTTPException(status.HTTP_413_CONTENT_TOO_LARGE, f"the body has more than {largest} bytes")
