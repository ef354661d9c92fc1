"""The endpoints the engine and the lanes of a node talk to: leases and progress (design: leases).

Served on loopback only. The engine signs with the token it was started with, a lane with the session of its lease.
"""

from __future__ import annotations

from typing import Annotated, Protocol

from fastapi import APIRouter, Header, HTTPException, Response, status

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


class LeaseDesk(Protocol):
    """What the node answers with. Every method raises LeaseRefusedError when the caller's secret is void."""

    async def engine(self, secret: str, report: EngineReport, wait: float) -> EngineOrders:
        """Take the engine's report; answer at once when there is news for it, else after ``wait`` seconds."""

    async def lease(self, lane: int, request: LeaseRequest) -> LeaseGrant:
        """Give a lane its lease, with start offsets read at this moment."""

    async def progress(self, lane: int, secret: str, progress: LaneProgress, wait: float) -> LaneOrders | None:
        """Take a lane's progress; None: no news after ``wait`` seconds."""


def lease_router(desk: LeaseDesk) -> APIRouter:
    """The internal endpoints, kept out of the published OpenAPI page."""
    router = APIRouter(prefix="/internal", include_in_schema=False)

    @router.post("/engine")
    async def engine(
        report: EngineReport, wait: float = 0.0, authorization: Annotated[str, Header()] = ""
    ) -> EngineOrders:
        try:
            return await desk.engine(_secret(authorization), report, min(wait, LONGEST_WAIT_S))
        except LeaseRefusedError as error:
            raise HTTPException(status.HTTP_403_FORBIDDEN, str(error)) from error

    @router.put("/lanes/{lane}/lease")
    async def lease(lane: int, request: LeaseRequest) -> LeaseGrant:
        try:
            return await desk.lease(lane, request)
        except LeaseRefusedError as error:
            raise HTTPException(status.HTTP_410_GONE, str(error)) from error

    @router.post("/lanes/{lane}/progress", response_model=None)
    async def progress(
        lane: int, progress: LaneProgress, wait: float = 0.0, authorization: Annotated[str, Header()] = ""
    ) -> LaneOrders | Response:
        try:
            orders = await desk.progress(lane, _secret(authorization), progress, min(wait, LONGEST_WAIT_S))
        except LeaseRefusedError as error:
            raise HTTPException(status.HTTP_410_GONE, str(error)) from error
        return orders or Response(status_code=status.HTTP_204_NO_CONTENT)

    return router


def _secret(authorization: str) -> str:
    return authorization.removeprefix("Bearer ")
