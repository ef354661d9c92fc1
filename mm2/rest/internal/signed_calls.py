"""Signed requests from other nodes of a flow: authentication, forwarding to the leader, and errors.

    404  no such flow on this node                      400  headers missing or malformed, algorithm not accepted
    503  session key not read yet                       403  wrong signature, too old, or received before
    409  leader unknown                                 413  body too large            500  timed out, or failed

Every error has Java's body: {"error_code":<status>,"message":"…"}. Requests between nodes are always signed; Java signs
them only with the group protocol ``sessioned``.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import assert_never

from fastapi import FastAPI, Request, Response
from fastapi.exception_handlers import request_validation_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from mm2.core.access.audit import MOST_REASON
from mm2.core.coordination.leader_context import CarryOut, Conflict, LeaderContext, SendOn
from mm2.core.coordination.request_signing import (
    ALGORITHM_HEADER,
    OWN_SIGNATURE_HEADER,
    REQUEST_HEADER,
    SIGNATURE_HEADER,
    BadSignatureError,
    Fault,
    RequestLine,
    SeenRequests,
    Signature,
    check_headers,
    command_secret,
)
from mm2.core.coordination.session_keys import SessionKey
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
    Fault.STALE: HTTPStatus.FORBIDDEN,
    Fault.REPEATED: HTTPStatus.FORBIDDEN,
    Fault.TOO_MANY: HTTPStatus.SERVICE_UNAVAILABLE,
}

NO_SUCH_BODY = (
    'invalid body: send none, or for pause and resume {"topics": ["NAME", ...]}, with Content-Type: application/json'
)


def no_positions(error: RequestValidationError) -> str:
    """Return what is wrong with the body of a request to translate positions: its first error."""
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"][1:]))
    return (
        f"invalid body: {place or 'it'}: {first['msg']}; send "
        '{"positions": [{"topic": "orders", "partition": 0, "offset": 123}, ...]}, with Content-Type: application/json'
    )


LONG_REASON = f"the reason has more than {MOST_REASON} characters"

TOKENS_DIFFER = ": do all nodes of the flow have the same mm2.rest.admin.token?"

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


Dependency = Callable[[Request, str, str, bool | None], Awaitable[SignedCall]]


def signed_call(leader_contexts: LeaderContexts, *, token: str | None = None) -> Dependency:
    """Return a FastAPI dependency for paths below ``/{source}/{target}/`` that requires our own signature.

    ``token``: the mm2.rest.admin.token that commands are signed with, too; None for other requests.
    """
    seen = SeenRequests(lambda: time.time_ns() // 1_000_000, lambda: time.monotonic_ns() // 1_000_000)

    async def check(request: Request, source: str, target: str, forward: bool | None = None) -> SignedCall:
        leader_context = leader_context_of(leader_contexts, source, target)
        key = leader_context.session_key
        if key is not None and token is not None:
            key = replace(key, secret=command_secret(key.secret, token))
        try:
            signature = _signature(request, OWN_SIGNATURE_HEADER, leader_context, key)
            line = RequestLine(
                method=request.method,
                node_url=leader_context.own_url or "",
                path=_path(request),
                id=seen.check(request.headers.get(REQUEST_HEADER)),
            )
            body = await read_body(request)
            signature.verify(line.content(body))
            seen.add(line.id)
        except BadSignatureError as error:
            hint = "" if token is None or error.fault is not Fault.WRONG else TOKENS_DIFFER
            raise RefusalError(_STATUS[error.fault], f"{error}{hint}") from error
        return SignedCall(leader_context=leader_context, body=body, forward=forward)

    return check


def call_signed_as_java(leader_contexts: LeaderContexts) -> Callable[[Request, str, str], Awaitable[None]]:
    """Return a FastAPI dependency for the paths of KIP-710, which requires Java's signature (KIP-507)."""

    async def check(request: Request, source: str, target: str) -> None:
        leader_context = leader_context_of(leader_contexts, source, target)
        try:
            signature = _signature(request, SIGNATURE_HEADER, leader_context, leader_context.session_key)
            signature.verify(await read_body(request))
        except BadSignatureError as error:
            raise RefusalError(_STATUS[error.fault], str(error)) from error

    return check


def _signature(request: Request, header: str, leader_context: LeaderContext, key: SessionKey | None) -> Signature:
    return check_headers(
        signature=request.headers.get(header),
        algorithm=request.headers.get(ALGORITHM_HEADER),
        key=key,
        accepted=leader_context.accepted_algorithms,
    )


def _path(request: Request) -> str:
    path, query = request.scope["raw_path"].decode("latin-1"), request.scope["query_string"].decode("latin-1")
    return f"{path}?{query}" if query else path


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
                    return await peers.ask(url, leader_context, replace(request, forward=forward))
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
            if request.url.path.endswith("/translate"):
                return JSONResponse({"detail": no_positions(error)}, HTTPStatus.UNPROCESSABLE_ENTITY)
            long = any(one["loc"] == ("query", "reason") for one in error.errors())
            return JSONResponse({"detail": LONG_REASON if long else NO_SUCH_BODY}, HTTPStatus.UNPROCESSABLE_ENTITY)
        return await request_validation_exception_handler(request, error)

    app.add_exception_handler(RefusalError, refused)
    app.add_exception_handler(RequestValidationError, not_understood)
