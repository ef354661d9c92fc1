"""Signed requests from other nodes of a flow (KIP-507): authentication, forwarding to the leader, and errors.

    404  no such flow on this node                      400  headers missing or malformed, algorithm not accepted
    503  session key not read yet                       403  wrong signature
    409  leader unknown                                 413  body too large            500  timed out, or failed

Every error has Java's body: {"error_code":<status>,"message":"…"}. Requests between nodes are always signed; Java signs
them only with the group protocol ``sessioned``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import assert_never

from fastapi import FastAPI, Request, Response
from fastapi.exception_handlers import request_validation_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from mm2.core.coordination.leader_context import LeaderContext
from mm2.core.coordination.request_routing import CarryOut, Conflict, SendOn
from mm2.core.coordination.request_signing import (
    ALGORITHM_HEADER,
    SIGNATURE_HEADER,
    BadSignatureError,
    Fault,
    check_headers,
)
from mm2.rest.internal.peers import ANSWER_WITHIN_S, PeerError, PeerRequest, Peers

log = logging.getLogger("mm2.rest")

LARGEST_REQUEST = 1024 * 1024
"""Maximum bytes of a body, which is a command: twice what an operator can send."""

_STATUS = {
    Fault.MISSING: HTTPStatus.BAD_REQUEST,
    Fault.MALFORMED: HTTPStatus.BAD_REQUEST,
    Fault.NOT_ACCEPTED: HTTPStatus.BAD_REQUEST,
    Fault.NO_KEY: HTTPStatus.SERVICE_UNAVAILABLE,
    Fault.WRONG: HTTPStatus.FORBIDDEN,
}

NO_SUCH_BODY = (
    'invalid body: send none, or for pause and resume {"topics": ["NAME", ...]}, with Content-Type: application/json'
)

LeaderContexts = Callable[[str, str], LeaderContext | None]
"""Maps source and target to this node's current membership in that flow; None: it has no such flow."""


class RefusalError(Exception):
    """A request between nodes was rejected, with HTTP ``status`` and a message."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedCall:
    """A verified request of another node of the same flow."""

    leader_context: LeaderContext
    body: bytes
    forward: bool | None


def signed_call(leader_contexts: LeaderContexts) -> Callable[[Request, str, str, bool | None], Awaitable[SignedCall]]:
    """Return a FastAPI dependency for paths below ``/{source}/{target}/`` that requires a valid signature."""

    async def check(request: Request, source: str, target: str, forward: bool | None = None) -> SignedCall:
        leader_context = leader_context_of(leader_contexts, source, target)
        try:
            signature = check_headers(
                signature=request.headers.get(SIGNATURE_HEADER),
                algorithm=request.headers.get(ALGORITHM_HEADER),
                key=leader_context.session_key,
                accepted=leader_context.accepted_algorithms,
            )
            body = await read_body(request)
            signature.verify(body)
        except BadSignatureError as error:
            raise RefusalError(_STATUS[error.fault], str(error)) from error
        return SignedCall(leader_context=leader_context, body=body, forward=forward)

    return check


def leader_context_of(leader_contexts: LeaderContexts, source: str, target: str) -> LeaderContext:
    """Return this node's membership in a flow. Raises RefusalError if the node has no such flow."""
    leader_context = leader_contexts(source, target)
    if leader_context is None:
        raise RefusalError(HTTPStatus.NOT_FOUND, f"no flow {source}->{target} on this node")
    return leader_context


async def read_body(request: Request) -> bytes:
    """Return the body, whose signature is not verified yet. Raises RefusalError if it is too large."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_REQUEST:
            raise RefusalError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {LARGEST_REQUEST} bytes")
    return bytes(body)


async def by_leader(
    leader_context: LeaderContext,
    request: PeerRequest,
    carry_out: Callable[[], Awaitable[bytes]],
    peers: Peers,
    *,
    within: float = ANSWER_WITHIN_S,
) -> bytes:
    """Execute ``request`` if this node leads, otherwise forward it to the leader; return the body of the response.
    ``within``: seconds for all of it. Raises RefusalError."""
    limit = asyncio.timeout(within)
    try:
        async with limit:
            match leader_context.route(request.forward):
                case CarryOut():
                    return await carry_out()
                case SendOn(url=url, forward=forward):
                    onward = PeerRequest(method=request.method, path=request.path, body=request.body, forward=forward)
                    return await peers.ask(url, leader_context, onward)
                case Conflict(message=message):
                    raise RefusalError(HTTPStatus.CONFLICT, message)
                case other:
                    assert_never(other)
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise RefusalError(HTTPStatus.INTERNAL_SERVER_ERROR, f"timed out after {within:.0f} s") from error
    except PeerError as error:
        raise RefusalError(error.status or HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from error


def add_refusals(app: FastAPI) -> None:
    """Give errors of ``app`` their body: Java's format, or below /flows/ that of the other public responses."""

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, RefusalError)
        if request.url.path.startswith("/flows/"):  # sent by an operator, not by a node
            return JSONResponse({"detail": str(error)}, int(error.status))
        return JSONResponse({"error_code": int(error.status), "message": str(error)}, int(error.status))

    async def not_understood(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        if request.url.path.startswith("/flows/"):
            return JSONResponse({"detail": NO_SUCH_BODY}, HTTPStatus.UNPROCESSABLE_ENTITY)
        return await request_validation_exception_handler(request, error)

    app.add_exception_handler(RefusalError, refused)
    app.add_exception_handler(RequestValidationError, not_understood)
