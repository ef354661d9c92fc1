"""How fast flows copy, and when they will have caught up: from what a node shows at two times."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from mm2.rest.shapes import FlowShape

LOOK_AGAIN_S = 3.0
"""Between the two looks that a rate is made of: lanes report once a second, so that it is right to about a third."""

WINDOW_S = 10.0
"""Lanes report once a second, at times of their own: over ten seconds a rate is right to a tenth."""

IN_FLIGHT_S = 2.0
"""What is copied within two seconds is not a backlog: lanes report once a second, and the source goes on."""

Key = tuple[str, str, int]
"""Flow, source topic, partition."""


class Outlook(StrEnum):
    """Where a flow is heading."""

    UNKNOWN = "not known yet"
    CAUGHT_UP = "caught up"
    KEEPING_UP = "keeping up"
    CATCHING_UP = "catching up"
    FALLING_BEHIND = "falling behind"
    STANDING_STILL = "standing still"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPace:
    """One flow as a whole.

    ``lag_records`` and ``lag_seconds`` are None while no partition's are known; the seconds are those of the worst one.
    ``records_per_second`` are source offsets copied. ``catch_up_seconds``: how long until the lag is gone if all goes
    on as it does; None where it would not go away, or where that is not known.
    """

    partitions: int
    caught_up: int
    lag_records: int | None
    lag_seconds: float | None
    records_per_second: float | None
    catch_up_seconds: float | None
    outlook: Outlook


@dataclass(frozen=True, slots=True)
class _Look:
    at: float
    ends: Mapping[Key, tuple[int, int]]  # position and end offset


class Pace:
    """Remembers what a node showed during the last `WINDOW_S`. ``clock`` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._looks: deque[_Look] = deque()

    def take(self, flows: Iterable[FlowShape]) -> None:
        """The node shows this now."""
        now = self._clock()
        self._looks.append(
            _Look(
                now,
                {
                    (flow.flow, topic.topic, one.partition): (one.position, one.end_offset)
                    for flow in flows
                    for topic in flow.topics
                    for one in topic.partitions
                    if one.lag_records >= 0
                },
            )
        )
        while len(self._looks) > 2 and self._looks[1].at <= now - WINDOW_S:
            self._looks.popleft()

    def rate(self, key: Key) -> float | None:
        """Source offsets of one partition copied in a second; None while that is not known."""
        moved = self._moved([key])
        return None if moved is None else moved[0]

    def of(self, flow: FlowShape) -> FlowPace:
        """The flow as it was taken last."""
        keys = [(flow.flow, topic.topic, one.partition) for topic in flow.topics for one in topic.partitions]
        known = [one for topic in flow.topics for one in topic.partitions if one.lag_records >= 0]
        lag = sum(one.lag_records for one in known) if known else None
        moved = self._moved(keys)
        rate, shrinks = (None, None) if moved is None else moved
        outlook, seconds = _outlook(lag, rate, shrinks) if len(known) == len(keys) else (Outlook.UNKNOWN, None)
        return FlowPace(
            partitions=len(keys),
            caught_up=sum(one.lag_records == 0 for one in known),
            lag_records=lag,
            lag_seconds=max((one.lag_seconds for one in known), default=None),
            records_per_second=rate,
            catch_up_seconds=seconds,
            outlook=outlook,
        )

    def _moved(self, keys: Iterable[Key]) -> tuple[float, float] | None:
        """Offsets copied in a second, and by how many the lag shrinks, over those partitions known at both times."""
        if len(self._looks) < 2:
            return None
        first, last = self._looks[0], self._looks[-1]
        both = [key for key in keys if key in first.ends and key in last.ends]
        if not both or last.at <= first.at:
            return None
        copied = written = 0
        for key in both:
            (position_then, end_then), (position, end) = first.ends[key], last.ends[key]
            copied += max(0, position - position_then)  # a lane that begins again goes back to what was stored
            written += max(0, end - end_then)
        seconds = last.at - first.at
        return copied / seconds, (copied - written) / seconds


def _outlook(lag: int | None, rate: float | None, shrinks: float | None) -> tuple[Outlook, float | None]:
    if lag == 0:
        return Outlook.CAUGHT_UP, 0.0
    if lag is None or rate is None or shrinks is None:
        return Outlook.UNKNOWN, None
    if rate == 0:
        return Outlook.STANDING_STILL, None
    if lag <= rate * IN_FLIGHT_S:
        return Outlook.KEEPING_UP, lag / rate
    return (Outlook.CATCHING_UP, lag / shrinks) if shrinks > 0 else (Outlook.FALLING_BEHIND, None)
