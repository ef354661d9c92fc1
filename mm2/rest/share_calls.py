"""What nodes of a flow ask each other for, signed: what one of them runs, and what it knows of consumer groups.

    GET  /{source}/{target}/mm2/status     its share of the flow (`mm2.rest.shares`)
    GET  /{source}/{target}/mm2/groups     its groups, as /flows/{source}/{target}/groups shows them for a node alone

KIP-710's own two stand here too, to be refused with a sentence: our task lists and fences travel by the config topic.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Response
from fastapi.concurrency import run_in_threadpool

from mm2.node.published import FlowStatus, NodeStatus
from mm2.rest.answers import packed
from mm2.rest.group_shapes import groups_json
from mm2.rest.shapes import FlowShape
from mm2.rest.shares import SHARE, Share
from mm2.rest.signed_calls import RefusalError, SignedCall, Standings, signed_call

STATUS = ("mm2", "status")
GROUPS = ("mm2", "groups")
"""Behind ``/{source}/{target}/``."""

BY_KAFKA = (
    "an mm2 node takes neither task configurations nor requests to fence over REST: nodes share tasks out by their "
    "group and the config topic. Is a Java MirrorMaker given this node's URL?"
)


def share_of(status: NodeStatus, flow: FlowStatus) -> Share:
    """What the node of ``status`` shows of ``flow``, which is one of its own."""
    return Share(node=status.node_id, leads=flow.is_leader, flow=FlowShape.of(flow))


def share_router(published: Callable[[], NodeStatus], standings: Standings) -> APIRouter:
    """All of them. Refusals need `signed_calls.add_refusals` on the application."""
    router = APIRouter(prefix="/{source}/{target}", include_in_schema=False)
    signed = Depends(signed_call(standings))

    @router.get(f"/{'/'.join(STATUS)}")
    async def status(call: SignedCall = signed, accept_encoding: Annotated[str, Header()] = "") -> Response:
        now = published()
        flow = _flow(now, call)
        return await run_in_threadpool(lambda: packed(SHARE.dump_json(share_of(now, flow)), accept_encoding))

    @router.get(f"/{'/'.join(GROUPS)}")
    async def groups(call: SignedCall = signed, accept_encoding: Annotated[str, Header()] = "") -> Response:
        flow = _flow(published(), call)
        return await run_in_threadpool(lambda: packed(groups_json(flow), accept_encoding))

    @router.put("/connectors/{connector}/fence", dependencies=[signed])
    @router.post("/connectors/{connector}/tasks", dependencies=[signed])
    async def of_java(connector: str) -> None:
        raise RefusalError(HTTPStatus.NOT_IMPLEMENTED, f"{connector}: {BY_KAFKA}")

    return router


def _flow(status: NodeStatus, call: SignedCall) -> FlowStatus:
    asked = call.standing.flow
    flow = next((one for one in status.flows if one.flow == asked), None)
    if flow is None:
        raise RefusalError(HTTPStatus.NOT_FOUND, f"there is no flow {asked} on this node")
    return flow
