"""The endpoints for the engine and the lanes of a node: leases and progress.

An engine is a child process of the node and is served on loopback only. So are lanes, unless Spark runs them on other
machines: then they use the node's listeners. An engine authenticates with the token it was started with, a lane with
the session of its lease; a request with neither is rejected before more than a few bytes are read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Annotated, Protocol, TypeVar

from fastapi import APIRouter, Header, HTTPException, Request, status
from pydantic import TypeAdapter, ValidationError

from mm2.core.lanes.engine_orders import EngineOrders, EngineReport, EngineRole
from mm2.core.lanes.lease import (
    MAX_FAILED_RECORD_BYTES,
    FailedRecordReport,
    LeaseGrant,
    LeaseNotReadyError,
    LeaseRefusedError,
    LeaseRenewal,
    LeaseRequest,
)
from mm2.core.lanes.progress_reports import LaneProgress
from mm2.core.lanes.query_trials import FrameSpan
from mm2.core.lanes.shared_trust import share

LONGEST_WAIT_S = 5.0
"""Maximum time of a long poll; lanes and the engine ask for one second."""

LARGEST_REQUEST = 4 * 1024
"""Maximum bytes of a lease request, which contains a token and two numbers, and of an announced frame: the name of a
topic, and four numbers."""

LARGEST_REPORT = 64 * 1024 * 1024
"""Maximum bytes of a report of the engine, and of a lane's progress: 100,000 partitions on one lane, each with an error
as long as this line."""

LARGEST_RECORD = 2 * MAX_FAILED_RECORD_BYTES
"""Maximum bytes of a failed record, whose batch is in base64."""

_ENGINE_REPORT = TypeAdapter(EngineReport)
_FAILED_RECORD = TypeAdapter(FailedRecordReport)
_FRAME: TypeAdapter[FrameSpan | None] = TypeAdapter(FrameSpan | None)
_REQUEST = TypeAdapter(LeaseRequest)
_PROGRESS = TypeAdapter(LaneProgress)

_T = TypeVar("_T")


class LeaseApi(Protocol):
    """The lease service of a node. Every method raises LeaseRefusedError if the caller's secret is not valid."""

    def check_engine(self, secret: str) -> EngineRole:
        """Return which engine of the node has this ``secret``."""

    async def engine(self, engine: EngineRole, report: EngineReport, wait: float) -> EngineOrders:
        """Process an engine's report; return as soon as its orders change, otherwise after ``wait`` seconds."""

    async def lease(self, lane: int, request: LeaseRequest) -> LeaseGrant:
        """Grant a lane its lease, with start offsets read now. Raises LeaseNotReadyError if they cannot be read."""

    def check(self, lane: int, secret: str) -> None:
        """Check that ``secret`` is that of the lane's lease."""

    async def progress(self, lane: int, secret: str, progress: LaneProgress, wait: float) -> LeaseRenewal:
        """Process a lane's progress; return when its orders change, or after ``wait`` seconds."""

    async def failed_record(self, lane: int, topic: str, partition: int, batch: str) -> str | None:
        """Return Spark's message for a record for which the query of a lane failed. ``batch``: as in `FailedRecord`.

        Returns None after 5 s, or if the query does not fail.
        """

    async def announce(self, lane: int, secret: str, frame: FrameSpan | None, wait: float) -> bool:
        """Note that ``frame`` of a lane is about to enter its query, or that nothing of it is in the query.

        Returns whether it may enter; False after ``wait`` seconds in which it was the turn of other lanes. It always
        may when no record of its query is searched for.
        """


def engine_router(lease_service: LeaseApi) -> APIRouter:
    """Return the endpoint for the node's own engines. Like `lane_router` it is left out of the OpenAPI page."""
    router = APIRouter(prefix="/internal", include_in_schema=False)

    @router.post("/engine")
    async def engine(request: Request, wait: float = 0.0, authorization: Annotated[str, Header()] = "") -> EngineOrders:
        try:
            role = lease_service.check_engine(_secret(authorization))
        except LeaseRefusedError as error:
            raise HTTPException(status.HTTP_403_FORBIDDEN, str(error)) from error
        report = await _body(request, LARGEST_REPORT, _ENGINE_REPORT.validate_json)
        return await lease_service.engine(role, report, min(wait, LONGEST_WAIT_S))

    return router


@contextlib.contextmanager
def _http_errors() -> Iterator[None]:
    """Answer 410 to a lane whose session is not, or no longer, that of its lease, and 503 if there is no lease yet."""
    try:
        yield
    except LeaseRefusedError as error:
        raise HTTPException(status.HTTP_410_GONE, str(error)) from error
    except LeaseNotReadyError as error:
        raise HTTPException(status.HTTP_503_SERVICE_UNAVAILABLE, str(error)) from error


def lane_router(lease_service: LeaseApi) -> APIRouter:
    """Return the endpoints for lanes, wherever they run."""
    router = APIRouter(prefix="/internal/lanes", include_in_schema=False)

    @router.put("/{lane}/lease")
    async def lease(lane: int, request: Request) -> LeaseGrant:
        asked = await _body(request, LARGEST_REQUEST, _REQUEST.validate_json)
        with _http_errors():
            grant = await lease_service.lease(lane, asked)
            return replace(grant, renewal=_shared(grant.renewal))

    @router.post("/{lane}/progress")
    async def progress(
        lane: int, request: Request, wait: float = 0.0, authorization: Annotated[str, Header()] = ""
    ) -> LeaseRenewal:
        secret = _secret(authorization)
        with _http_errors():
            lease_service.check(lane, secret)
            report = await _body(request, LARGEST_REPORT, _PROGRESS.validate_json)
            return _shared(await lease_service.progress(lane, secret, report, min(wait, LONGEST_WAIT_S)))

    @router.post("/{lane}/failed-record")
    async def failed_record(lane: int, request: Request, authorization: Annotated[str, Header()] = "") -> str | None:
        with _http_errors():
            lease_service.check(lane, _secret(authorization))
            record = await _body(request, LARGEST_RECORD, _FAILED_RECORD.validate_json)
            return await lease_service.failed_record(lane, record.topic, record.partition, record.batch)

    @router.post("/{lane}/frame")
    async def frame(
        lane: int, request: Request, wait: float = 0.0, authorization: Annotated[str, Header()] = ""
    ) -> bool:
        secret = _secret(authorization)
        with _http_errors():
            lease_service.check(lane, secret)
            announced = await _body(request, LARGEST_REQUEST, _FRAME.validate_json)
            return await lease_service.announce(lane, secret, announced, min(wait, LONGEST_WAIT_S))

    return router


async def _body(request: Request, largest: int, read: Callable[[bytes], _T]) -> _T:
    """Return the parsed body. No more than ``largest`` bytes are read from the connection."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > largest:
            raise HTTPException(status.HTTP_413_CONTENT_TOO_LARGE, f"more than {largest} bytes")
    try:
        return read(bytes(body))
    except ValidationError:  # its message would contain the request, which may contain a token
        raise HTTPException(
            status.HTTP_422_UNPROCESSABLE_CONTENT,
            "invalid report: is the same release of mm2 installed on all machines?",
        ) from None


def _secret(authorization: str) -> str:
    return authorization.removeprefix("Bearer ")


def _shared(renewal: LeaseRenewal) -> LeaseRenewal:
    return renewal if renewal.orders is None else replace(renewal, orders=share(renewal.orders))
