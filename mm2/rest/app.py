"""The REST application behind ``listeners``, and the table of its endpoints.

/flows and the groups of a flow are merged from all of its nodes; /health and /metrics are the node's own. An endpoint
is one module and one line of `ENDPOINTS`.

Large responses are built in worker threads: rendering the metrics of 10,000 partitions takes over half a second of CPU,
which must not delay leases and group heartbeats on the event loop.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Collection, Mapping
from importlib.metadata import version

from fastapi import FastAPI

from mm2.core.settings.listener import ListenerSettings
from mm2.rest.endpoint import Endpoint, RestContext
from mm2.rest.internal.share_api import share_router
from mm2.rest.internal.signed_calls import add_refusals
from mm2.rest.public.responses import HeadAsGet
from mm2.rest.server.allowed_hosts import AllowedHosts
from mm2.rest.server.response_headers import add_response_headers

ENDPOINTS: Mapping[str, str] = {
    "health": "mm2.rest.public.health:ENDPOINT",
    "node": "mm2.rest.public.node:ENDPOINT",
    "flows": "mm2.rest.public.flows:ENDPOINT",
    "groups": "mm2.rest.public.groups:ENDPOINT",
    "losses": "mm2.rest.public.losses:ENDPOINT",
    "partitions": "mm2.rest.public.partitions:ENDPOINT",
    "queries": "mm2.rest.public.queries:ENDPOINT",
    "metrics": "mm2.rest.public.metrics:ENDPOINT",
    "docs": "mm2.rest.public.docs:ENDPOINT",
    "commands": "mm2.rest.public.commands:ENDPOINT",
}
"""Endpoint name to import string of the `Endpoint`."""


def rest_app(
    context: RestContext,
    listening: ListenerSettings | None = None,
    *,
    hosts: Collection[str] | None = None,
    endpoints: Mapping[str, str] = ENDPOINTS,
) -> FastAPI:
    """Return the application of one node. ``listening``: response headers and allowed origins; ``hosts``: names of the
    node as in `mm2.rest.server.allowed_hosts`, None: any name."""
    app = FastAPI(
        title="mm2",
        version=version("mm2"),
        description="State of a MirrorMaker 2 node and its flows. Offsets are those of the source cluster.",
        docs_url=None,  # FastAPI's own pages load scripts from a CDN, which is unreachable from many broker networks
        redoc_url=None,
    )
    app.add_middleware(HeadAsGet)
    if hosts is not None:
        app.add_middleware(AllowedHosts, names=hosts)
    if listening is not None:
        add_response_headers(app, listening)
    add_refusals(app)
    loaded: list[Endpoint] = [pkgutil.resolve_name(name) for name in endpoints.values()]
    for endpoint in loaded:
        app.include_router(endpoint.router(context))
    shares = [endpoint.share for endpoint in loaded if endpoint.share is not None]
    app.include_router(share_router(context.status, context.leader_contexts, shares, context.story))
    return app
