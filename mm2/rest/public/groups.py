"""GET /flows/{source}/{target}/groups: the consumer groups of a flow's source, merged from all nodes of the flow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Header, Response, status
from fastapi.concurrency import run_in_threadpool
from pydantic import Field, TypeAdapter

from mm2.node.status.status_model import FlowGroups, MemberStatus
from mm2.rest.endpoint import Endpoint, RestContext
from mm2.rest.merge.cluster_view import ShareType, UnreadableShareError
from mm2.rest.merge.flow_merge import unseen
from mm2.rest.merge.group_merge import (
    GroupShare,
    GroupsUnreadableError,
    groups_json,
    is_due,
    merge_groups,
    read_groups,
)
from mm2.rest.public.responses import JSON, compressed


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownFlow:
    """The flow does not exist."""

    detail: Annotated[str, Field(description="the flows that exist")]


_UNKNOWN = TypeAdapter(UnknownFlow)


def _read(body: bytes, member: MemberStatus) -> GroupShare:
    try:
        return read_groups(body, due=is_due(member.tasks))
    except GroupsUnreadableError as error:
        raise UnreadableShareError(
            f"unexpected response from {member.url} ({error}): do all nodes run the same release?"
        ) from error


SHARE = ShareType(
    name="groups",
    dump=lambda _, flow: groups_json(flow),
    read=_read,
    timeout_s=15.0,  # 100,000 partitions in all groups take 2 s of CPU and 30 MB on the network
    largest=128 * 1024 * 1024,  # four times what those are
)


def _router(context: RestContext) -> APIRouter:
    router = APIRouter()

    @router.get(
        "/flows/{source}/{target}/groups",
        summary="Offset translation of the source's consumer groups",
        response_model=FlowGroups,
        responses={status.HTTP_404_NOT_FOUND: {"model": UnknownFlow, "description": "Unknown flow"}},
    )
    async def groups(
        source: str, target: str, accept_encoding: Annotated[str, Header(include_in_schema=False)] = ""
    ) -> Response:
        """Every group with its committed offsets, their translation to the target, and what group offset sync did."""
        now = context.status()
        flow = next((one for one in now.flows if (one.source, one.target) == (source, target)), None)
        if flow is None:
            others = ", ".join(one.flow for one in now.flows) or "none"
            detail = f"no flow {source}->{target} on this node; its flows: {others}"
            return Response(_UNKNOWN.dump_json(UnknownFlow(detail=detail)), 404, media_type=JSON)
        answers = await context.view.shares(SHARE, now, flow)

        def answer() -> Response:
            body = groups_json(flow)
            if answers:
                due = any(is_due(member.tasks) for member in flow.members if member.node == now.node_id)
                shares = [read_groups(body, due=due)]
                shares += [share for share in answers.values() if isinstance(share, GroupShare)]
                reasons = [unseen(node, why) for node, why in answers.items() if isinstance(why, str)]
                body = merge_groups(flow, shares, reasons)
            return compressed(body, accept_encoding)

        return await run_in_threadpool(answer)

    return router


ENDPOINT = Endpoint(router=_router, share=SHARE)
