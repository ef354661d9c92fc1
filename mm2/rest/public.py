"""The public REST interface (contract: REST): what a node shows to monitoring, programs and people. Read only.

Large answers are built in worker threads: rendering the metrics of 10,000 partitions takes over half a second of CPU,
during which leases and group heartbeats on the event loop must not starve.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated

from fastapi import FastAPI, Header, Response, status
from fastapi.responses import HTMLResponse, RedirectResponse
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, generate_latest
from pydantic import TypeAdapter

from mm2.core.listener_settings import ListenerSettings
from mm2.node.published import NodeStatus
from mm2.rest.browsers import add_for_browsers
from mm2.rest.docs_page import docs_page
from mm2.rest.group_shapes import GroupsShape, groups_json
from mm2.rest.health import UP, health
from mm2.rest.metrics import NodeCollector
from mm2.rest.shapes import FlowShape, HealthShape, UnknownShape

GZIP_FROM_BYTES = 1_400
"""About one network packet: a shorter answer does not arrive any earlier when compressed."""

_FLOWS = TypeAdapter(tuple[FlowShape, ...])
_HEALTH = TypeAdapter(HealthShape)
_UNKNOWN = TypeAdapter(UnknownShape)


def public_app(published: Callable[[], NodeStatus], listening: ListenerSettings | None = None) -> FastAPI:
    """The application behind ``listeners``. ``published`` returns the node's newest state and may be called from any
    thread; ``listening`` is what the file wants of answers."""
    app = FastAPI(
        title="mm2",
        version=version("mm2"),
        description="What a MirrorMaker 2 node shows of itself. Read only; offsets are those of the source cluster.",
        docs_url=None,  # FastAPI's own pages load scripts from a CDN, which a broker's network does not reach
        redoc_url=None,
    )
    if listening is not None:
        add_for_browsers(app, listening)
    registry = CollectorRegistry()
    registry.register(NodeCollector(published))

    @app.get("/health/live", summary="Does the process serve?")
    async def live() -> HealthShape:
        """200 while the process serves, whatever its flows do. For a liveness probe."""
        return HealthShape(status=UP)

    @app.get(
        "/health",
        summary="Does every enabled flow run, and is nothing FAILED?",
        response_model=HealthShape,
        responses={status.HTTP_503_SERVICE_UNAVAILABLE: {"model": HealthShape, "description": "Something is wrong"}},
    )
    def healthy() -> Response:
        """200 when every enabled flow runs and no task, topic or partition is FAILED; else 503 with the reasons."""
        answer = health(published())
        code = status.HTTP_200_OK if answer.status == UP else status.HTTP_503_SERVICE_UNAVAILABLE
        return Response(_HEALTH.dump_json(answer), code, media_type="application/json")

    @app.get("/flows", summary="Flows with their tasks, topics and partitions", response_model=tuple[FlowShape, ...])
    def flows(accept_encoding: Annotated[str, Header(include_in_schema=False)] = "") -> Response:
        """Every flow this node knows, also those that only send heartbeats."""
        body = _FLOWS.dump_json(tuple(map(FlowShape.of, published().flows)))
        return _packed(body, "application/json", accept_encoding)

    @app.get(
        "/flows/{source}/{target}/groups",
        summary="What becomes of the source's consumer groups, and why",
        response_model=GroupsShape,
        responses={status.HTTP_404_NOT_FOUND: {"model": UnknownShape, "description": "There is no such flow"}},
    )
    def groups(
        source: str, target: str, accept_encoding: Annotated[str, Header(include_in_schema=False)] = ""
    ) -> Response:
        """Every group with its committed offsets, what they are on the target, and what group offset sync did."""
        known = published().flows
        flow = next((one for one in known if (one.flow.source, one.flow.target) == (source, target)), None)
        if flow is None:
            others = ", ".join(str(one.flow) for one in known) or "none"
            sentence = f"there is no flow {source}->{target} on this node; its flows: {others}"
            body = _UNKNOWN.dump_json(UnknownShape(detail=sentence))
            return Response(body, status.HTTP_404_NOT_FOUND, media_type="application/json")
        return _packed(groups_json(flow), "application/json", accept_encoding)

    @app.get("/metrics", summary="Prometheus metrics", response_class=Response)
    def metrics(accept_encoding: Annotated[str, Header(include_in_schema=False)] = "") -> Response:
        """Prometheus text format 0.0.4. docs/metrics.md tells what each metric means."""
        return _packed(generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4, accept_encoding)

    @app.get("/docs", summary="This page", response_class=HTMLResponse)
    async def docs() -> HTMLResponse:
        """The operations and their answers, for people."""
        return HTMLResponse(docs_page(app.openapi()))

    @app.get("/", include_in_schema=False)
    async def root() -> RedirectResponse:
        return RedirectResponse("docs")

    return app


def _packed(body: bytes, content_type: str, accept_encoding: str) -> Response:
    """``body`` as an answer, compressed when it is long and the caller takes gzip."""
    headers = {"Vary": "Accept-Encoding", "Content-Type": content_type}
    if len(body) >= GZIP_FROM_BYTES and "gzip" in accept_encoding:
        body = gzip.compress(body, compresslevel=1)  # 7 MB of metrics become 0.4 MB in 20 ms
        headers["Content-Encoding"] = "gzip"
    return Response(body, headers=headers)
