"""GET /flows/{source}/{target}/partitions/{topic}/{partition}: the step of a partition, its reason and its events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Response, status
from pydantic import Field, TypeAdapter, ValidationError

from mm2.core.lanes.partition_steps import PartitionStory
from mm2.core.naming.names import Flow, TopicPartition
from mm2.node.status.status_model import MemberStatus
from mm2.rest.endpoint import Endpoint, RestContext
from mm2.rest.merge.cluster_view import ShareRequest, UnreadableShareError
from mm2.rest.merge.partition_merge import PARTITION_DETAILS, PartitionDetails, merge_partition
from mm2.rest.public.flows import whole_flow
from mm2.rest.public.responses import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownPartition:
    """The flow, topic or partition does not exist."""

    detail: Annotated[str, Field(description="what exists instead")]


_UNKNOWN = TypeAdapter(UnknownPartition)
_STORY = TypeAdapter(PartitionStory)


def _read(body: bytes, member: MemberStatus) -> PartitionStory:
    try:
        return _STORY.validate_json(body)
    except ValidationError:
        raise UnreadableShareError(
            f"unexpected response from {member.url}: do all nodes run the same release?"
        ) from None


STORY = ShareRequest(name="partitions", read=_read, timeout_s=2.0)


def _router(context: RestContext) -> APIRouter:
    router = APIRouter()

    @router.get(
        "/flows/{source}/{target}/partitions/{topic}/{partition}",
        summary="One partition with its step, the reason, and its last events",
        response_model=PartitionDetails,
        responses={status.HTTP_404_NOT_FOUND: {"model": UnknownPartition, "description": "Unknown partition"}},
    )
    async def partition(source: str, target: str, topic: str, partition: int) -> Response:
        """What a source partition does at its source and its target, what it waits for, and what has happened to it."""
        now, flow = context.status(), Flow(source, target)
        own = next((one for one in now.flows if one.flow == str(flow)), None)
        if own is None:
            return _unknown(f"no flow {flow} on this node; its flows: {_list(one.flow for one in now.flows)}")
        whole = await whole_flow(context, flow)
        found = next((one for one in whole.topics if one.topic == topic), None)
        if found is None:
            return _unknown(f"{flow} does not replicate a topic {topic}")
        wanted = next((one for one in found.partitions if one.partition == partition), None)
        if wanted is None:
            return _unknown(f"topic {topic} has no partition {partition}; it has {len(found.partitions)}")
        others = await context.view.shares(STORY, now, own, topic, str(partition))
        answers = {now.node_id: context.story(flow, TopicPartition(topic, partition)), **others}
        return Response(PARTITION_DETAILS.dump_json(merge_partition(whole, found, wanted, answers)), media_type=JSON)

    return router


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _unknown(detail: str) -> Response:
    return Response(_UNKNOWN.dump_json(UnknownPartition(detail=detail)), status.HTTP_404_NOT_FOUND, media_type=JSON)


ENDPOINT = Endpoint(router=_router)
