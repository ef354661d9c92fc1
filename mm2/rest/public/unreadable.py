"""Responses about a flow that the node does not have, or whose records it cannot read now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Response, status
from pydantic import Field, TypeAdapter

from mm2.core.coordination.query_history_records import QueriesUnreadableError
from mm2.core.lanes.losses import LossesUnreadableError
from mm2.rest.public.responses import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """The records cannot be returned."""

    detail: Annotated[str, Field(description="the reason")]


_UNREADABLE = TypeAdapter(Unreadable)


def unreadable_responses(unavailable: str) -> dict[int | str, dict[str, Any]]:
    """Return the descriptions of these responses; ``unavailable`` is that of 503."""
    return {
        status.HTTP_404_NOT_FOUND: {"model": Unreadable, "description": "Unknown flow"},
        status.HTTP_503_SERVICE_UNAVAILABLE: {"model": Unreadable, "description": unavailable},
    }


def unreadable(error: LossesUnreadableError | QueriesUnreadableError) -> Response:
    """Return the response for an error: 404 for an unknown flow, otherwise 503."""
    code = status.HTTP_404_NOT_FOUND if error.is_unknown else status.HTTP_503_SERVICE_UNAVAILABLE
    return Response(_UNREADABLE.dump_json(Unreadable(detail=str(error))), code, media_type=JSON)
