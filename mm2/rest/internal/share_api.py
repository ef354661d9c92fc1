"""Signed endpoints by which nodes of a flow request each other's shares.

    GET  /{source}/{target}/mm2/{name}                             one for each `ShareType` of `mm2.rest.app.ENDPOINTS`
    GET  /{source}/{target}/mm2/partitions/{topic}/{partition}     a `PartitionStory`

The two endpoints of KIP-710 exist, too, and reject requests: task lists and fencing use the config topic.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import TypeAdapter

from mm2.core.lanes.partition_steps import PartitionStory
from mm2.core.naming.names import Flow, TopicPartition
from mm2.node.status.status_model import NodeStatus
from mm2.rest.internal.signed_calls import (
    LeaderContexts,
    RefusalError,
    SignedCall,
    call_signed_as_java,
    signed_call,
)
from mm2.rest.merge.cluster_view import ShareType
from mm2.rest.public.responses import JSON, compressed

_STORY = TypeAdapter(PartitionStory)

BY_KAFKA = (
    "an mm2 node does not accept task configurations or fencing requests over REST, because tasks are assigned through "
    "the group and the config topic. Is a Java MirrorMaker configured with this node's URL?"
)


def share_router(
    status: Callable[[], NodeStatus],
    leader_contexts: LeaderContexts,
    shares: Iterable[ShareType[Any]],
    stories: Callable[[Flow, TopicPartition], PartitionStory],
) -> APIRouter:
    """Return all of them. Errors need `signed_calls.add_refusals` on the application."""
    router = APIRouter(prefix="/{source}/{target}", include_in_schema=False)
    signed, signed_as_java = Depends(signed_call(leader_contexts)), Depends(call_signed_as_java(leader_contexts))

    def endpoint(share: ShareType[Any]) -> Callable[..., Awaitable[Response]]:
        async def answer(call: SignedCall = signed, accept_encoding: Annotated[str, Header()] = "") -> Response:
            now, asked = status(), str(call.leader_context.flow)
            flow = next((one for one in now.flows if one.flow == asked), None)
            if flow is None:
                raise RefusalError(HTTPStatus.NOT_FOUND, f"no flow {asked} on this node")
            return await run_in_threadpool(lambda: compressed(share.dump(now, flow), accept_encoding))

        return answer

    for share in shares:
        router.add_api_route(f"/mm2/{share.name}", endpoint(share), methods=["GET"], name=share.name)

    @router.get("/mm2/partitions/{topic}/{partition}")
    async def story(topic: str, partition: int, call: SignedCall = signed) -> Response:
        found = stories(call.leader_context.flow, TopicPartition(topic, partition))
        return Response(_STORY.dump_json(found), media_type=JSON)

    @router.put("/connectors/{connector}/fence", dependencies=[signed_as_java])
    @router.post("/connectors/{connector}/tasks", dependencies=[signed_as_java])
    async def of_java(connector: str) -> None:
        raise RefusalError(HTTPStatus.NOT_IMPLEMENTED, f"{connector}: {BY_KAFKA}")

    return router
