"""GET /flows: every flow of this node, merged from all nodes of each flow."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Header, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import TypeAdapter, ValidationError

from mm2.core.naming.names import Flow
from mm2.node.status.status_model import FlowStatus, MemberStatus, NodeStatus
from mm2.rest.endpoint import Endpoint, RestContext
from mm2.rest.merge.cluster_view import ShareType, UnreadableShareError
from mm2.rest.merge.flow_merge import FlowShare, merge_flow, share_of
from mm2.rest.public.responses import compressed

_FLOWS = TypeAdapter(tuple[FlowStatus, ...])
_SHARE = TypeAdapter(FlowShare)


def _read(body: bytes, member: MemberStatus) -> FlowShare:
    try:
        share = _SHARE.validate_json(body)
    except ValidationError:
        raise UnreadableShareError(
            f"unexpected response from {member.url}: do all nodes run the same release?"
        ) from None
    if share.node != member.node:
        raise UnreadableShareError(
            f"its advertised URL {member.url} belongs to node {share.node}: check rest.advertised.* of both nodes"
        )
    return share


def _dump(status: NodeStatus, flow: FlowStatus) -> bytes:
    """Encode the share of a node for other nodes."""
    return _SHARE.dump_json(share_of(status.node_id, flow))


SHARE = ShareType(
    name="status",
    dump=_dump,
    read=_read,
    timeout_s=2.0,  # a node with 10,000 partitions answers in 0.2 s, and over a slow link within 1 s
    fresh_s=1.0,  # nodes publish once a second
)


def _router(context: RestContext) -> APIRouter:
    router = APIRouter()

    @router.get(
        "/flows", summary="Flows with their tasks, topics and partitions", response_model=tuple[FlowStatus, ...]
    )
    async def flows(accept_encoding: Annotated[str, Header(include_in_schema=False)] = "") -> Response:
        """Every flow of this node, also those that only send heartbeats, with the state of all nodes of the flow."""
        now = context.status()
        requests = [context.view.shares(SHARE, now, flow) for flow in now.flows]
        answers = await asyncio.gather(*requests)

        def answer() -> Response:
            both = zip(now.flows, answers, strict=True)
            merged = tuple(merge_flow(share_of(now.node_id, flow), others) for flow, others in both)
            return compressed(_FLOWS.dump_json(merged), accept_encoding)

        return await run_in_threadpool(answer)

    return router


async def whole_flow(context: RestContext, flow: Flow) -> FlowStatus:
    """Return the status of a flow of this node, merged from all nodes of the flow."""
    now = context.status()
    own = next(one for one in now.flows if one.flow == str(flow))
    return merge_flow(share_of(now.node_id, own), await context.view.shares(SHARE, now, own))


ENDPOINT = Endpoint(router=_router, share=SHARE)
