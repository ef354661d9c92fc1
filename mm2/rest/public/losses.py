"""GET /flows/{source}/{target}/losses: every recorded loss of a flow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Header, Response, status
from fastapi.concurrency import run_in_threadpool
from pydantic import Field, TypeAdapter

from mm2.core.lanes.losses import LossesUnreadableError
from mm2.core.naming.names import Flow
from mm2.rest.endpoint import Endpoint, RestContext
from mm2.rest.public.losses_response import LOSSES_RESPONSE, LossesResponse
from mm2.rest.public.responses import JSON, compressed


@dataclass(frozen=True, slots=True, kw_only=True)
class NoLosses:
    """The losses cannot be returned."""

    detail: Annotated[str, Field(description="the reason")]


_NONE = TypeAdapter(NoLosses)


def _router(context: RestContext) -> APIRouter:
    router = APIRouter()

    @router.get(
        "/flows/{source}/{target}/losses",
        summary="Every recorded loss of a flow",
        response_model=LossesResponse,
        responses={
            status.HTTP_404_NOT_FOUND: {"model": NoLosses, "description": "Unknown flow"},
            status.HTTP_503_SERVICE_UNAVAILABLE: {"model": NoLosses, "description": "The topic cannot be read"},
        },
    )
    async def losses(
        source: str, target: str, accept_encoding: Annotated[str, Header(include_in_schema=False)] = ""
    ) -> Response:
        """Source records that can no longer be copied, as recorded in mm2-losses.SOURCE.internal on the target."""
        flow = Flow(source, target)
        try:
            found = await context.losses(flow)
        except LossesUnreadableError as error:
            code = status.HTTP_404_NOT_FOUND if error.is_unknown else status.HTTP_503_SERVICE_UNAVAILABLE
            return Response(_NONE.dump_json(NoLosses(detail=str(error))), code, media_type=JSON)
        response = LossesResponse(flow=str(flow), losses=found)
        return await run_in_threadpool(lambda: compressed(LOSSES_RESPONSE.dump_json(response), accept_encoding))

    return router


ENDPOINT = Endpoint(router=_router)
