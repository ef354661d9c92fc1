"""GET /health and /health/live: the health of this node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Response, status
from pydantic import Field, TypeAdapter

from mm2.core.lanes.task_states import TaskState
from mm2.node.status.status_model import NodeStatus
from mm2.rest.endpoint import Endpoint, RestContext
from mm2.rest.merge.flow_merge import own_share
from mm2.rest.merge.flow_problems import FlowProblem, flow_problems, pause_of
from mm2.rest.public.responses import JSON

UP = "UP"
DOWN = "DOWN"

MOST_REASONS = 100
"""A broker that is down can fail every partition: after this many reasons one more gives the number left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthResponse:
    """The response of /health and /health/live."""

    status: Annotated[str, Field(description="UP, or DOWN with HTTP status 503")]
    reasons: Annotated[tuple[str, ...], Field(description="one message per problem")] = ()


_HEALTH = TypeAdapter(HealthResponse)


def health(node: NodeStatus) -> HealthResponse:
    """Return UP if every enabled flow is RUNNING and none of its tasks, topics or partitions on this node is FAILED.

    Problems that do not make the node DOWN are listed after the others: temporary errors, reasons of a RUNNING flow,
    the topics of it that an operator paused, and everything about flows that are not enabled (heartbeats only).
    """
    counted, listed = [], []
    for flow in own_share(node):
        pause = pause_of(flow)
        for problem in [*flow_problems(flow), *([] if pause is None else [pause])]:
            if flow.enabled and _counts(problem):
                counted.append(_reason(flow.flow, problem))
            else:
                listed.append(
                    _reason(flow.flow, problem) + ("" if flow.enabled else " (heartbeats only: does not affect health)")
                )
    reasons = counted + listed
    if len(reasons) > MOST_REASONS:
        reasons = [*reasons[:MOST_REASONS], f"and {len(reasons) - MOST_REASONS} more: see /flows"]
    return HealthResponse(status=DOWN if counted else UP, reasons=tuple(reasons))


def _counts(problem: FlowProblem) -> bool:
    return problem.state is TaskState.FAILED or (not problem.place and problem.state is not TaskState.RUNNING)


def _reason(flow: str, problem: FlowProblem) -> str:
    if not _counts(problem):
        return f"{flow}: {problem}"
    if not problem.place:
        return f"{flow} is {problem.state}: {problem.reason}"
    return f"{flow}: {problem.place} is {problem.state}: {problem.reason}"


def _router(context: RestContext) -> APIRouter:
    router = APIRouter()

    @router.get("/health/live", summary="Liveness")
    async def live() -> HealthResponse:
        """200 while the process responds, whatever the state of its flows. For liveness probes."""
        return HealthResponse(status=UP)

    @router.get(
        "/health",
        summary="Health",
        response_model=HealthResponse,
        responses={
            status.HTTP_503_SERVICE_UNAVAILABLE: {
                "model": HealthResponse,
                "description": "A flow is not RUNNING, or something is FAILED",
            }
        },
    )
    def healthy() -> Response:
        """200 if every enabled flow is RUNNING and no task, topic or partition is FAILED; else 503 with the reasons."""
        answer = health(context.status())
        code = status.HTTP_200_OK if answer.status == UP else status.HTTP_503_SERVICE_UNAVAILABLE
        return Response(_HEALTH.dump_json(answer), code, media_type=JSON)

    return router


ENDPOINT = Endpoint(router=_router, needs_no_token=True)
