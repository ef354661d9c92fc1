"""The public REST interface (contract: REST): what a node shows to monitoring, programs and people. Read only.

/flows are whole, whichever node of a flow is asked; /health and /metrics are the node's own.

Large answers are built in worker threads: rendering the metrics of 10,000 partitions takes over half a second of CPU,
during which leases and group heartbeats on the event loop must not starve.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Annotated

from fastapi import FastAPI, Header, Response, status
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, generate_latest
from pydantic import TypeAdapter

from mm2.core.listener_settings import ListenerSettings
from mm2.core.names import Flow
from mm2.node.published import FlowStatus, NodeStatus
from mm2.rest.answers import JSON, HeadAsGet, packed
from mm2.rest.browsers import add_for_browsers
from mm2.rest.cluster_view import ClusterView
from mm2.rest.docs_page import docs_page
from mm2.rest.group_shapes import GroupsShape, groups_json
from mm2.rest.group_shares import GroupShare, is_due, joined, read_groups
from mm2.rest.health import UP, health
from mm2.rest.metrics import NodeCollector
from mm2.rest.shapes import FlowShape, HealthShape, UnknownShape
from mm2.rest.share_calls import share_of
from mm2.rest.shares import Answers, merged

_FLOWS = TypeAdapter(tuple[FlowShape, ...])
_HEALTH = TypeAdapter(HealthShape)
_UNKNOWN = TypeAdapter(UnknownShape)


def public_app(
    published: Callable[[], NodeStatus], view: ClusterView, listening: ListenerSettings | None = None
) -> FastAPI:
    """The application behind ``listeners``. ``published`` returns the node's newest state and may be called from any
    thread; ``view`` asks the other nodes of its flows; ``listening`` is what the file wants of answers."""
    app = FastAPI(
        title="mm2",
        version=version("mm2"),
        description="What a MirrorMaker 2 node shows of its flows and itself. Offsets are those of the source cluster.",
        docs_url=None,  # FastAPI's own pages load scripts from a CDN, which a broker's network does not reach
        redoc_url=None,
    )
    app.add_middleware(HeadAsGet)
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
        return Response(_HEALTH.dump_json(answer), code, media_type=JSON)

    @app.get("/flows", summary="Flows with their tasks, topics and partitions", response_model=tuple[FlowShape, ...])
    async def flows(accept_encoding: Annotated[str, Header(include_in_schema=False)] = "") -> Response:
        """Every flow of this node, also those that only send heartbeats, with what the flow's other nodes run of it."""
        now = published()
        answers = await view.answers(now)
        return await run_in_threadpool(lambda: packed(_flows_json(now, answers), accept_encoding))

    @app.get(
        "/flows/{source}/{target}/groups",
        summary="What becomes of the source's consumer groups, and why",
        response_model=GroupsShape,
        responses={status.HTTP_404_NOT_FOUND: {"model": UnknownShape, "description": "There is no such flow"}},
    )
    async def groups(
        source: str, target: str, accept_encoding: Annotated[str, Header(include_in_schema=False)] = ""
    ) -> Response:
        """Every group with its committed offsets, what they are on the target, and what group offset sync did."""
        now = published()
        flow = next((one for one in now.flows if (one.flow.source, one.flow.target) == (source, target)), None)
        if flow is None:
            others = ", ".join(str(one.flow) for one in now.flows) or "none"
            sentence = f"there is no flow {source}->{target} on this node; its flows: {others}"
            body = _UNKNOWN.dump_json(UnknownShape(detail=sentence))
            return Response(body, status.HTTP_404_NOT_FOUND, media_type=JSON)
        shares, unseen = await view.groups(now, flow)
        return await run_in_threadpool(lambda: packed(_groups_json(now, flow, shares, unseen), accept_encoding))

    @app.get("/metrics", summary="Prometheus metrics", response_class=Response)
    def metrics(accept_encoding: Annotated[str, Header(include_in_schema=False)] = "") -> Response:
        """Prometheus text format 0.0.4. docs/metrics.md tells what each metric means."""
        return packed(generate_latest(registry), accept_encoding, CONTENT_TYPE_PLAIN_0_0_4)

    @app.get("/docs", summary="This page", response_class=HTMLResponse)
    async def docs() -> HTMLResponse:
        """The operations and their answers, for people."""
        return HTMLResponse(docs_page(app.openapi()))

    @app.get("/", include_in_schema=False)
    async def root() -> RedirectResponse:
        return RedirectResponse("docs")

    return app


def _flows_json(status: NodeStatus, answers: Mapping[Flow, Answers]) -> bytes:
    return _FLOWS.dump_json(tuple(merged(share_of(status, flow), answers.get(flow.flow, {})) for flow in status.flows))


def _groups_json(status: NodeStatus, flow: FlowStatus, shares: Sequence[GroupShare], unseen: Sequence[str]) -> bytes:
    """``shares`` and ``unseen``: what `ClusterView.groups` has brought."""
    own = groups_json(flow)
    if not shares and not unseen:
        return own
    due = any(is_due(member.tasks) for member in flow.members if member.node == status.node_id)
    return joined(flow.flow, [read_groups(own, due=due), *shares], unseen)
