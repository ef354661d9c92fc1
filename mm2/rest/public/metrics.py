"""GET /metrics: the node's own state as Prometheus metrics."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, generate_latest

from mm2.rest.endpoint import Endpoint, RestContext
from mm2.rest.public.metrics_collector import FailedLoginCollector, NodeCollector
from mm2.rest.public.responses import compressed


def _router(context: RestContext) -> APIRouter:
    router = APIRouter()
    registry = CollectorRegistry()
    registry.register(NodeCollector(context.status))
    registry.register(FailedLoginCollector(lambda: context.gate.failed_logins.counts))

    @router.get("/metrics", summary="Prometheus metrics", response_class=Response)
    def metrics(accept_encoding: Annotated[str, Header(include_in_schema=False)] = "") -> Response:
        """Prometheus text format 0.0.4. docs/reference/metrics.md describes the metrics."""
        return compressed(generate_latest(registry), accept_encoding, CONTENT_TYPE_PLAIN_0_0_4)

    return router


ENDPOINT = Endpoint(router=_router)
