"""GET /node: the node itself, and with ``?log=N`` the last lines of its log."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import Field, TypeAdapter

from mm2.node.status.status_model import ClusterStatus, FileStatus, LaneBuffer, NodeStatus
from mm2.rest.endpoint import Endpoint, RestContext
from mm2.rest.public.responses import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDetails:
    """One node: its release, its process and its file."""

    node: Annotated[str, Field(description="node ID")]
    version: Annotated[str, Field(description="release of the node")]
    started: Annotated[int, Field(description="in milliseconds since 1970")]
    pid: Annotated[int, Field(description="its process; those of the engine and the lanes are children of it")]
    python: str
    system: Annotated[str, Field(description="operating system and machine")]
    file: FileStatus
    spark_ui: Annotated[str | None, Field(description="URL of Spark's UI; null: Spark does not run")]
    lane_buffers: tuple[LaneBuffer, ...]
    flows: Annotated[tuple[str, ...], Field(description="the flows of its file")]
    log: Annotated[tuple[str, ...], Field(description="the last lines of its log, oldest first; empty without ?log=N")]
    clusters: Annotated[
        tuple[ClusterStatus, ...], Field(description="the clusters of its flows, and whether they answer it")
    ] = ()


NODE_DETAILS = TypeAdapter(NodeDetails)


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
        lane_buffers=status.lane_buffers,
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
