"""The endpoints the engine and the lanes of a node talk to: leases and progress (design: leases).

The engine is a process of the node's own and is served on loopback only. Lanes are, too, unless Spark runs them on
other machines: then they come to the node's listeners. The engine signs with the token it was started with, a lane with
the session of its lease; who shows neither is refused before more than a few bytes are read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Protocol, TypeVar

from fastapi import APIRouter, Header, HTTPException, Request, Response, status
from pydantic import TypeAdapter, ValidationError

from mm2.core.lease import (
    EngineOrders,
    EngineReport,
    LaneOrders,
    LaneProgress,
    LeaseGrant,
    LeaseRefusedError,
    LeaseRequest,
)

LONGEST_WAIT_S = 5.0
"""Nobody may hold a request longer; lanes and engine ask for one second."""

LARGEST_REQUEST = 4 * 1024
"""Bytes in which a lane asks for its lease: a token and two numbers."""

LARGEST_REPORT = 64 * 1024 * 1024
"""Bytes of a lane's progress: 100,000 partitions on one lane, each with an error as long as this line."""

_REQUEST = TypeAdapter(LeaseRequest)
_PROGRESS = TypeAdapter(LaneProgress)

_T = TypeVar("_T")


class LeaseDesk(Protocol):
    """What the node answers with. Every method raises LeaseRefusedError when the caller's secret is void."""

    async def engine(self, secret: str, report: EngineReport, wait: float) -> EngineOrders:
        """Take the engine's report; answer at once when there is news for it, else after ``wait`` seconds."""

    async def lease(self, lane: int, request: LeaseRequest) -> LeaseGrant:
        """Give a lane its lease, with start offsets read at this moment."""

    def check(self, lane: int, secret: str) -> None:
        """Whether ``secret`` is that of the lane's lease."""

    async def progress(self, lane: int, secret: str, progress: LaneProgress, wait: float) -> LaneOrders | None:
        """Take a lane's progress; None: no news after ``wait`` seconds."""


def engine_router(desk: LeaseDesk) -> APIRouter:
    """For the node's own engine. Kept out of the published OpenAPI page, like `lane_router`."""
    router = APIRouter(prefix="/internal", include_in_schema=False)

    @router.post("/engine")
    async def engine(
        report: EngineReport, wait: float = 0.0, authorization: Annotated[str, Header()] = ""
    ) -> EngineOrders:
        try:
            return await desk.engine(_secret(authorization), report, min(wait, LONGEST_WAIT_S))
        except LeaseRefusedError as error:
            raise HTTPException(status.HTTP_403_FORBIDDEN, str(error)) from error

    return router


def lane_router(desk: LeaseDesk) -> APIRouter:
    """For lanes, wherever they run."""
    router = APIRouter(prefix="/internal/lanes", include_in_schema=False)

    @router.put("/{lane}/lease")
    async def lease(lane: int, request: Request) -> LeaseGrant:
        asked = await _body(request, LARGEST_REQUEST, _REQUEST.validate_json)
        try:
            return await desk.lease(lane, asked)
        except LeaseRefusedError as error:
            raise HTTPException(status.HTTP_410_GONE, str(error)) from error

    @router.post("/{lane}/progress", response_model=None)
    async def progress(
        lane: int, request: Request, wait: float = 0.0, authorization: Annotated[str, Header()] = ""
    ) -> LaneOrders | Response:
        secret = _secret(authorization)
        try:
            desk.check(lane, secret)
            said = await _body(request, LARGEST_REPORT, _PROGRESS.validate_json)
            orders = await desk.progress(lane, secret, said, min(wait, LONGEST_WAIT_S))
        except LeaseRefusedError as error:
            raise HTTPException(status.HTTP_410_GONE, str(error)) from error
        return orders or Response(status_code=status.HTTP_204_NO_CONTENT)

    return router


async def _body(request: Request, largest: int, read: Callable[[bytes], _T]) -> _T:
    """The request's body, read; the connection is not asked for more than ``largest`` bytes."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > largest:
            raise HTTPException(status.HTTP_413_CONTENT_TOO_LARGE, f"more than {largest} bytes")
    try:
        return read(bytes(body))
    except ValidationError as error:  # its text would repeat what was sent, which may be a token
        raise HTTPException(
            status.HTTP_422_UNPROCESSABLE_CONTENT,
            "not what a lane of this version says: is the same mm2 on all machines?",
        ) from error


def _secret(authorization: str) -> str:
    return authorization.removeprefix("Bearer ")
