"""The response of GET /flows/{source}/{target}/losses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, TypeAdapter

from mm2.core.lanes.losses import Loss


@dataclass(frozen=True, slots=True, kw_only=True)
class LossesResponse:
    """Every recorded loss of a flow."""

    flow: Annotated[str, Field(description="source->target")]
    losses: Annotated[tuple[Loss, ...], Field(description="in the order in which they were recorded")]


LOSSES_RESPONSE = TypeAdapter(LossesResponse)
