"""GET /node: the node itself, and with ``?log=N`` the last lines of its log."""

from __future__ import annotations

import os
import platform
from typing import Annotated

from fastapi import APIRouter, Query, Response

from mm2.node.status.status_model import NodeStatus
from mm2.rest.endpoint import Endpoint, RestContext
from mm2.rest.public.response_bodies import NODE_DETAILS, NodeDetails
from mm2.rest.public.responses import JSON


def details(status: NodeStatus, lines: tuple[str, ...]) -> NodeDetails:
    """Return the details of this process's node."""
    return NodeDetails(
        node=status.node_id,
        version=status.version,
        started=round(status.started_at * 1_000),
        pid=os.getpid(),
        python=platform.python_version(),
        system=platform.platform(),
        file=status.file,
        spark_ui=status.spark_ui,
        engines=status.engines,
        lane_buffers=status.lane_buffers,
        lane_memory=status.lane_memory,
        certificates=status.certificates,
        renewals=status.renewals,
        flows=tuple(flow.flow for flow in status.flows),
        log=lines,
        clusters=status.clusters,
    )


def _router(context: RestContext) -> APIRouter:
    router = APIRouter()

    @router.get("/node", summary="The node itself, and the last lines of its log", response_model=NodeDetails)
    async def node(log: Annotated[int, Query(ge=0, description="lines of the log, at most 1000")] = 0) -> Response:
        """This node: release, process, file, and with ``?log=N`` the last lines of its log, without secrets."""
        lines = tuple(context.log())[-log:] if log else ()
        return Response(NODE_DETAILS.dump_json(details(context.status(), lines)), media_type=JSON)

    return router


ENDPOINT = Endpoint(router=_router)
