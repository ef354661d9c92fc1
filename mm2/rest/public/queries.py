"""GET /flows/{source}/{target}/queries: from which source offset which query applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Header, Query, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import Field, TypeAdapter

from mm2.core.coordination.query_history import QueryHistory, QueryText
from mm2.core.coordination.query_history_records import QueriesUnreadableError
from mm2.core.naming.names import Flow, TopicPartition
from mm2.rest.endpoint import Endpoint, RestContext
from mm2.rest.public.responses import compressed, unreadable, unreadable_responses


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedQuery:
    """From ``offset`` on, up to the next entry, records passed through this query."""

    offset: Annotated[int, Field(description="first source offset")]
    sha256: Annotated[
        str | None, Field(description="digest of the query's text; null: records were copied as they are")
    ]
    query: Annotated[
        str | None,
        Field(description="the query, or module:function of a transform; null: copied as they are, or not known"),
    ]
    at: Annotated[int, Field(description="when copying with it was granted, epoch milliseconds")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionQueries:
    """The history of one source partition."""

    topic: Annotated[str, Field(description="name on the source cluster")]
    partition: int
    topic_id: Annotated[str | None, Field(description="ID of the source topic; null: not known")]
    queries: Annotated[
        tuple[AppliedQuery, ...], Field(description="the last 100 in the order of their offsets; before: as they are")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueriesResponse:
    """Which query applied to which records of a flow."""

    flow: Annotated[str, Field(description="source->target")]
    partitions: Annotated[
        tuple[PartitionQueries, ...], Field(description="the partitions to which a query has applied")
    ]


QUERIES_RESPONSE = TypeAdapter(QueriesResponse)


def queries_response(
    flow: Flow, histories: Mapping[TopicPartition, QueryHistory], texts: Mapping[str, QueryText], topic: str | None
) -> QueriesResponse:
    """Return the histories of all partitions, or only those of a source topic; ``texts`` are by digest."""
    return QueriesResponse(
        flow=str(flow),
        partitions=tuple(
            _partition(partition, history, texts)
            for partition, history in sorted(histories.items(), key=lambda one: one[0])
            if topic in (None, partition.topic)
        ),
    )


def _partition(partition: TopicPartition, history: QueryHistory, texts: Mapping[str, QueryText]) -> PartitionQueries:
    applied = []
    for one in history.entries:
        known = texts.get(one.sha256) if one.sha256 is not None else None
        text = known.text if known is not None else None
        applied.append(AppliedQuery(offset=one.offset, sha256=one.sha256, query=text, at=one.at_ms))
    return PartitionQueries(
        topic=partition.topic,
        partition=partition.partition,
        topic_id=None if history.topic_id is None else str(history.topic_id),
        queries=tuple(applied),
    )


def _router(context: RestContext) -> APIRouter:
    router = APIRouter()

    @router.get(
        "/flows/{source}/{target}/queries",
        summary="From which source offset which query applied",
        response_model=QueriesResponse,
        responses=unreadable_responses("The target is not connected"),
    )
    async def queries(
        source: str,
        target: str,
        topic: Annotated[str | None, Query(description="only this source topic")] = None,
        accept_encoding: Annotated[str, Header(include_in_schema=False)] = "",
    ) -> Response:
        """Each source partition's queries, as the leader recorded them in mm2-configs.SOURCE.internal on the target."""
        flow = Flow(source, target)
        try:
            found = context.query_histories(flow)
        except QueriesUnreadableError as error:
            return unreadable(error)
        histories, texts = dict(found.histories), dict(found.texts)  # the node changes them meanwhile

        def body() -> Response:
            response = queries_response(flow, histories, texts, topic)
            return compressed(QUERIES_RESPONSE.dump_json(response), accept_encoding)

        return await run_in_threadpool(body)

    return router


ENDPOINT = Endpoint(router=_router)
