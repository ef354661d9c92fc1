"""POST /flows/{source}/{target}/translate: positions of one cluster of a flow on the other one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Response, status
from fastapi.concurrency import run_in_threadpool
from pydantic import Field

from mm2.core.naming.names import Flow
from mm2.core.positions.answer import Precision
from mm2.core.positions.position_names import PositionRejectedError
from mm2.core.positions.positions import Position, PositionsUnreadableError
from mm2.rest.endpoint import Endpoint, RestContext
from mm2.rest.public.commands import gated_route
from mm2.rest.public.responses import JSON, Unreadable, unreadable, unreadable_responses

MOST_POSITIONS = 10_000
"""Positions of a request: a third of a second of CPU, in steps between which the node does everything else."""

LARGEST_REQUEST = 4 * 1024 * 1024
"""Maximum bytes of a body: that many positions of topics with names as long as Kafka allows."""

_Offset = Annotated[int, Field(ge=0, le=2**63 - 1, description="the next offset to read")]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPosition:
    """A position on the source; with ``reverse`` on the target."""

    topic: Annotated[str, Field(description="name on the cluster of the position", min_length=1, max_length=249)]
    partition: Annotated[int, Field(ge=0, le=2**31 - 1)]
    offset: _Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslateRequest:
    """Positions to translate."""

    positions: Annotated[tuple[AskedPosition, ...], Field(min_length=1, max_length=MOST_POSITIONS)]
    reverse: Annotated[bool, Field(description="the positions are on the target")] = False


_Again = Annotated[int | None, Field(description="so many records are read again at most; null: unknown")]
_Missing = Annotated[int | None, Field(description="ahead only: source offsets that are not copied yet")]
_Reason = Annotated[str, Field(description="why it is not exact")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionOnTarget:
    """The place of a position of the source. ``remote_offset`` null: none is known."""

    topic: str
    partition: int
    offset: int
    remote_topic: str
    remote_partition: int
    remote_offset: int | None
    precision: Precision
    reason: _Reason
    read_again: _Again
    missing: _Missing


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionOnSource:
    """The place of a position of the target (``reverse``). ``source_offset`` null: none is known."""

    remote_topic: str
    remote_partition: int
    remote_offset: int
    source_topic: str
    source_partition: int
    source_offset: int | None
    precision: Precision
    reason: _Reason
    read_again: _Again
    missing: _Missing


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslateResponse:
    """The answers, in the order of the positions."""

    flow: Annotated[str, Field(description="source->target")]
    positions: tuple[PositionOnTarget, ...] | tuple[PositionOnSource, ...]
    notes: Annotated[tuple[str, ...], Field(description="what makes the answers less precise")]


_RESPONSES = unreadable_responses("The target does not answer, or its map is still being read") | {
    status.HTTP_404_NOT_FOUND: {"model": Unreadable, "description": "No such flow, or it does not copy the topic"},
    status.HTTP_413_CONTENT_TOO_LARGE: {"description": "body too large"},
}


def _router(context: RestContext) -> APIRouter:
    router = APIRouter(route_class=gated_route(context.gate.may_read, LARGEST_REQUEST))

    @router.post(
        "/flows/{source}/{target}/translate",
        summary="Positions of one cluster of a flow on the other one",
        response_model=TranslateResponse,
        responses=_RESPONSES,
    )
    async def translate(source: str, target: str, request: TranslateRequest) -> Response:
        """Where positions on the source are on the target, by the exact offset map; with reverse the other way round.

        A reader that starts there skips no copied record. It changes nothing, and any node of the flow answers.
        """
        flow = Flow(source, target)
        asked = [Position(one.topic, one.partition, one.offset) for one in request.positions]
        try:
            found = await context.translate(flow, asked, request.reverse)
        except PositionsUnreadableError as error:
            return unreadable(error)
        except PositionRejectedError as error:
            return unreadable(PositionsUnreadableError(str(error), is_unknown=True))

        def body() -> bytes:
            rows = [one.as_json() for one in found.rows]
            answer = {"flow": str(flow), "positions": rows, "notes": list(found.notes)}
            return json.dumps(answer, ensure_ascii=False).encode()

        return Response(await run_in_threadpool(body), media_type=JSON)

    return router


ENDPOINT = Endpoint(router=_router)
