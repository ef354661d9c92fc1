"""GET /flows/{source}/{target}/losses: every recorded loss of a flow."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Response
from fastapi.concurrency import run_in_threadpool

from mm2.core.lanes.losses import LossesUnreadableError
from mm2.core.naming.names import Flow
from mm2.rest.endpoint import Endpoint, RestContext
from mm2.rest.public.response_bodies import LOSSES_RESPONSE, LossesResponse
from mm2.rest.public.responses import compressed, unreadable, unreadable_responses


def _router(context: RestContext) -> APIRouter:
    router = APIRouter()

    @router.get(
        "/flows/{source}/{target}/losses",
        summary="Every recorded loss of a flow",
        response_model=LossesResponse,
        responses=unreadable_responses("The topic cannot be read"),
    )
    async def losses(
        source: str, target: str, accept_encoding: Annotated[str, Header(include_in_schema=False)] = ""
    ) -> Response:
        """Source records that can no longer be copied, as recorded in mm2-losses.SOURCE.internal on the target."""
        flow = Flow(source, target)
        try:
            found = await context.losses(flow)
        except LossesUnreadableError as error:
            return unreadable(error)
        response = LossesResponse(flow=str(flow), losses=found)
        return await run_in_threadpool(lambda: compressed(LOSSES_RESPONSE.dump_json(response), accept_encoding))

    return router


ENDPOINT = Endpoint(router=_router)
