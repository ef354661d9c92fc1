"""What a partition is doing on each of its sides, by name, and what has happened to it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

EVENTS_KEPT = 50
"""A lane and its node keep this many events of a partition."""


class FetchStep(StrEnum):
    """What a partition does at the source. If several apply, the first in this order is shown."""

    STOPPED = "STOPPED"
    DRAINING = "DRAINING"
    AWAITS_TRUNCATION = "AWAITS_TRUNCATION"
    AWAITS_DEAD_LETTER = "AWAITS_DEAD_LETTER"
    AWAITS_UNREADABLE = "AWAITS_UNREADABLE"
    PAUSED = "PAUSED"
    MEMORY_RELEASED = "MEMORY_RELEASED"
    FULL = "FULL"
    AWAITS_START = "AWAITS_START"
    FETCHING = "FETCHING"


class SendStep(StrEnum):
    """What a partition does at the target. If several apply, the first in this order is shown."""

    ROLLING_BACK = "ROLLING_BACK"
    AWAITS_DEAD_LETTER = "AWAITS_DEAD_LETTER"
    AWAITS_SIZE_LIMIT = "AWAITS_SIZE_LIMIT"
    AWAITS_START_STORED = "AWAITS_START_STORED"
    SETTLING = "SETTLING"
    BACKOFF = "BACKOFF"
    DIVIDING = "DIVIDING"
    AWAITS_PRODUCER_ID = "AWAITS_PRODUCER_ID"
    AWAITS_BOUNDARY = "AWAITS_BOUNDARY"
    PACKING = "PACKING"
    WRITING = "WRITING"
    AWAITS_QUERY = "AWAITS_QUERY"
    IN_FLIGHT = "IN_FLIGHT"
    READY = "READY"
    IDLE = "IDLE"


@dataclass(frozen=True, slots=True)
class StepReport:
    """The step of one side ``since`` epoch seconds; ``reason`` is a message for operators, None if nothing is held up.

    ``step`` is the value of a `FetchStep` or `SendStep`.
    """

    step: str
    since: float
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionEvent:
    """A transition, an error or a decision, never a single batch. ``at``: epoch seconds."""

    at: float
    text: str
