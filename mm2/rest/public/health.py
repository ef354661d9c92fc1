"""GET /health, /health/ready and /health/live: the health of this node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Response, status
from pydantic import Field, TypeAdapter

from mm2.core.problems.problem_times import ProblemTimes
from mm2.core.problems.times_in_words import utc_text
from mm2.node.status.status_model import FlowStatus, NodeStatus
from mm2.rest.endpoint import Endpoint, RestContext
from mm2.rest.merge.flow_merge import own_share
from mm2.rest.merge.flow_problems import FlowProblem, flow_problems, pause_of
from mm2.rest.public.responses import JSON

UP = "UP"
DOWN = "DOWN"

MOST_REASONS = 100
"""Each partition can have a cause of its own: after this many reasons one more gives the number left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthResponse:
    """The response of /health, /health/ready and /health/live."""

    status: Annotated[str, Field(description="UP, or DOWN with HTTP status 503")]
    reasons: Annotated[tuple[str, ...], Field(description="one message per problem, with the time when it began")] = ()


_HEALTH = TypeAdapter(HealthResponse)


def health(node: NodeStatus, times: ProblemTimes) -> HealthResponse:
    """Return DOWN if a problem of an enabled flow counts and has lasted too long, or since the start of the node.

    A problem counts if the flow is not RUNNING, or a task, topic or partition on this node is FAILED; ``times`` says
    how long (`mm2.core.problems.problem_times`). All problems are listed at once, those that count with the time when
    they began. After them: temporary errors, reasons of a RUNNING flow, what an operator paused, and everything about
    flows that are not enabled (heartbeats only).
    """
    counted, listed = [], []
    is_down = False
    for flow in own_share(node):
        pause = pause_of(flow)
        for problem in [*flow_problems(flow), *([] if pause is None else [pause])]:
            reason = _reason(flow.flow, problem, times)
            if not flow.enabled:
                listed.append(f"{reason} (heartbeats only: does not affect health)")
            elif problem.counts:
                counted.append(reason)
                is_down = is_down or times.is_down(flow.flow)
            else:
                listed.append(reason)
    reasons = counted + listed
    if len(reasons) > MOST_REASONS:
        reasons = [*reasons[:MOST_REASONS], f"and {len(reasons) - MOST_REASONS} more: see /flows"]
    return HealthResponse(status=DOWN if is_down else UP, reasons=tuple(reasons))


def _reason(flow: str, problem: FlowProblem, times: ProblemTimes) -> str:
    if not problem.counts:
        return f"{flow}: {problem}"
    began = times.since(flow, problem.members)
    since = "" if began is None else f" since {utc_text(began)}"
    if not problem.place:
        return f"{flow} is {problem.state}{since}: {problem.reason}"
    verb = "is" if len(problem.members) == 1 else "are"
    return f"{flow}: {problem.place} {verb} {problem.state}{since}: {problem.reason}"


def readiness(node: NodeStatus) -> HealthResponse:
    """Return UP if the node is a member of each enabled flow, or says why not, and its engines run.

    Clusters that cannot be reached and pauses do not count: a node that another one replaces would have them, too.
    """
    enabled = [flow for flow in node.flows if flow.enabled]
    missing = ["the node is draining"] if node.draining else []
    missing += [f"{flow.flow}: about to join the flow" for flow in enabled if _joins(flow)]
    missing += [f"engine: {one.error}" for one in node.engines if one.error is not None]
    return HealthResponse(status=DOWN if missing else UP, reasons=(*missing, *_not_members(enabled)))


def _joins(flow: FlowStatus) -> bool:
    return not flow.is_member and flow.not_member is None


def _not_members(flows: list[FlowStatus]) -> Iterator[str]:
    for flow in flows:
        if not flow.is_member and flow.not_member is not None:
            yield f"{flow.flow}: not a member: {flow.not_member}"


def health_answer(found: HealthResponse) -> Response:
    """Return 200, or 503 if the status is DOWN."""
    code = status.HTTP_200_OK if found.status == UP else status.HTTP_503_SERVICE_UNAVAILABLE
    return Response(_HEALTH.dump_json(found), code, media_type=JSON)


def _router(context: RestContext) -> APIRouter:
    router = APIRouter()

    @router.get("/health/live", summary="Liveness")
    async def live() -> HealthResponse:
        """200 while the process responds, whatever the state of its flows. For liveness probes."""
        return HealthResponse(status=UP)

    @router.get(
        "/health/ready",
        summary="Readiness",
        response_model=HealthResponse,
        responses={
            status.HTTP_503_SERVICE_UNAVAILABLE: {
                "model": HealthResponse,
                "description": "The node starts or drains, or an engine does not run",
            }
        },
    )
    async def ready() -> Response:
        """200 if the node is a member of each enabled flow, or says why not, and its engines run. For readiness probes:
        neither clusters that cannot be reached nor pauses make it 503."""
        return health_answer(readiness(context.status()))

    @router.get(
        "/health",
        summary="Health",
        response_model=HealthResponse,
        responses={
            status.HTTP_503_SERVICE_UNAVAILABLE: {
                "model": HealthResponse,
                "description": "For 30 s, or since the start: a flow is not RUNNING, or something is FAILED",
            }
        },
    )
    def healthy() -> Response:
        """200 if every enabled flow is RUNNING or paused by an operator, and no task, topic or partition is FAILED; 503
        with the reasons if a problem has lasted 30 s, or since the node started. For monitoring."""
        return health_answer(health(context.status(), context.problem_times()))

    return router


ENDPOINT = Endpoint(router=_router, needs_no_token=True)
