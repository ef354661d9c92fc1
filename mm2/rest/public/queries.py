"""GET /flows/{source}/{target}/queries: from which source offset which query applied."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Response
from fastapi.concurrency import run_in_threadpool

from mm2.core.coordination.query_history_records import QueriesUnreadableError
from mm2.core.naming.names import Flow
from mm2.rest.endpoint import Endpoint, RestContext
from mm2.rest.public.queries_response import QUERIES_RESPONSE, QueriesResponse, queries_response
from mm2.rest.public.responses import compressed
from mm2.rest.public.unreadable import unreadable, unreadable_responses


def _router(context: RestContext) -> APIRouter:
    router = APIRouter()

    @router.get(
        "/flows/{source}/{target}/queries",
        summary="From which source offset which query applied",
        response_model=QueriesResponse,
        responses=unreadable_responses("The target is not connected"),
    )
    async def queries(
        source: str,
        target: str,
        topic: Annotated[str | None, Query(description="only this source topic")] = None,
        accept_encoding: Annotated[str, Header(include_in_schema=False)] = "",
    ) -> Response:
        """Each source partition's queries, as the leader recorded them in mm2-configs.SOURCE.internal on the target."""
        flow = Flow(source, target)
        try:
            found = context.query_histories(flow)
        except QueriesUnreadableError as error:
            return unreadable(error)
        histories, texts = dict(found.histories), dict(found.texts)  # the node changes them meanwhile

        def body() -> Response:
            response = queries_response(flow, histories, texts, topic)
            return compressed(QUERIES_RESPONSE.dump_json(response), accept_encoding)

        return await run_in_threadpool(body)

    return router


ENDPOINT = Endpoint(router=_router)
