"""The server's side of what nodes ask each other: who may ask, who answers, and how refusals look (mm2-compat §6.4).

    404  no such flow on this node                      400  headers missing or malformed, algorithm not accepted
    503  no session key read yet                        403  wrong signature
    409  nobody can tell who leads                      413  body too large            500  not done in time, or failed

Every refusal has Java's body: {"error_code":<status>,"message":"…"}. Requests between nodes are signed always; Java
does it where its group protocol is ``sessioned``.
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

from mm2.core.request_routing import CarryOut, Conflict, SendOn
from mm2.core.request_signing import ALGORITHM_HEADER, SIGNATURE_HEADER, BadSignatureError, Fault, verify
from mm2.core.standing import Standing
from mm2.rest.peers import ANSWER_WITHIN_S, LARGEST_BYTES, PeerError, PeerRequest, Peers

log = logging.getLogger("mm2.rest")

_STATUS = {
    Fault.MISSING: HTTPStatus.BAD_REQUEST,
    Fault.MALFORMED: HTTPStatus.BAD_REQUEST,
    Fault.NOT_ACCEPTED: HTTPStatus.BAD_REQUEST,
    Fault.NO_KEY: HTTPStatus.SERVICE_UNAVAILABLE,
    Fault.WRONG: HTTPStatus.FORBIDDEN,
}

NO_SUCH_BODY = (
    'this takes no such body: send none, or for pause and resume {"topics": ["NAME", ...]}, with Content-Type: '
    "application/json"
)

Standings = Callable[[str, str], Standing | None]
"""From source and target to where the node stands in that flow now; None: it has no such flow."""


class RefusalError(Exception):
    """A request between nodes is not carried out: ``status``, and a sentence for the one who asked."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedCall:
    """A request that a node of the same flow made."""

    standing: Standing
    body: bytes
    forward: bool | None


def signed_call(standings: Standings) -> Callable[[Request, str, str, bool | None], Awaitable[SignedCall]]:
    """A FastAPI dependency for paths that begin with ``/{source}/{target}/``: only what is signed comes through."""

    async def check(request: Request, source: str, target: str, forward: bool | None = None) -> SignedCall:
        standing = standing_of(standings, source, target)
        body = await read_body(request)
        try:
            verify(
                signature=request.headers.get(SIGNATURE_HEADER),
                algorithm=request.headers.get(ALGORITHM_HEADER),
                body=body,
                key=standing.session_key,
                accepted=standing.accepted_algorithms,
            )
        except BadSignatureError as error:
            raise RefusalError(_STATUS[error.fault], str(error)) from error
        return SignedCall(standing=standing, body=body, forward=forward)

    return check


def standing_of(standings: Standings, source: str, target: str) -> Standing:
    """Raises RefusalError where the node has no such flow."""
    standing = standings(source, target)
    if standing is None:
        raise RefusalError(HTTPStatus.NOT_FOUND, f"there is no flow {source}->{target} on this node")
    return standing


async def read_body(request: Request) -> bytes:
    """The raw bytes, before anybody parses them. Raises RefusalError when they are too many: whoever sends them has not
    shown a signature yet."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_BYTES:
            raise RefusalError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {LARGEST_BYTES} bytes")
    return bytes(body)


async def by_leader(
    standing: Standing,
    request: PeerRequest,
    carry_out: Callable[[], Awaitable[bytes]],
    peers: Peers,
    *,
    within: float = ANSWER_WITHIN_S,
) -> bytes:
    """Carry ``request`` out if this node leads, else have the leader do it; gives the body of the answer. ``within``:
    seconds, this node's part and the others' together. Raises RefusalError."""
    limit = asyncio.timeout(within)
    try:
        async with limit:
            match standing.route(request.forward):
                case CarryOut():
                    return await carry_out()
                case SendOn(url=url, forward=forward):
                    onward = PeerRequest(method=request.method, path=request.path, body=request.body, forward=forward)
                    return await peers.ask(url, standing, onward)
                case Conflict(sentence=sentence):
                    raise RefusalError(HTTPStatus.CONFLICT, sentence)
                case other:
                    assert_never(other)
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise RefusalError(HTTPStatus.INTERNAL_SERVER_ERROR, f"not done within {within:.0f} s") from error
    except PeerError as error:
        raise RefusalError(error.status or HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from error


def add_refusals(app: FastAPI) -> None:
    """Give refusals of ``app`` their body: Java's, or under /flows/ that of the other public answers."""

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, RefusalError)
        if request.url.path.startswith("/flows/"):  # asked by an operator, not by a node
            return JSONResponse({"detail": str(error)}, int(error.status))
        return JSONResponse({"error_code": int(error.status), "message": str(error)}, int(error.status))

    async def not_understood(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        if request.url.path.startswith("/flows/"):
            return JSONResponse({"detail": NO_SUCH_BODY}, HTTPStatus.UNPROCESSABLE_ENTITY)
        return await request_validation_exception_handler(request, error)

    app.add_exception_handler(RefusalError, refused)
    app.add_exception_handler(RequestValidationError, not_understood)
