"""How fast flows replicate, and when they will have caught up: from several states of a node."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from mm2.node.status.status_model import FlowStatus, PartitionStatus

LOOK_AGAIN_S = 3.0
"""Between the two states that a rate is computed from: lanes report once a second, so the error is about a third."""

WINDOW_S = 10.0
"""Lanes report once a second, at different times: over ten seconds the error of a rate is about a tenth."""

IN_FLIGHT_S = 2.0
"""What is copied within two seconds is not a backlog: lanes report once a second, and the source continues to grow."""

Key = tuple[str, str, int]
"""Flow, source topic, partition."""


class CatchUpEstimate(StrEnum):
    """How the lag of a flow develops."""

    UNKNOWN = "unknown"
    CAUGHT_UP = "caught up"
    KEEPING_UP = "keeping up"
    CATCHING_UP = "catching up"
    FALLING_BEHIND = "falling behind"
    STANDING_STILL = "standing still"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPace:
    """One flow as a whole.

    ``lag_records`` (the sum over partitions) and ``lag_seconds`` (the maximum) are None unless they are known of every
    partition; the lag of ``unknown`` partitions is not. ``lag_records_at_least`` and ``lag_seconds_at_least`` cover the
    others; None without any. ``records_per_second`` counts source offsets. ``catch_up_seconds``: time until the lag is
    0 at the current rates; None if it does not shrink, or if that is unknown.
    """

    partitions: int
    unknown: int
    caught_up: int
    lag_records: int | None
    lag_seconds: float | None
    lag_records_at_least: int | None
    lag_seconds_at_least: float | None
    records_per_second: float | None
    catch_up_seconds: float | None
    outlook: CatchUpEstimate


@dataclass(frozen=True, slots=True)
class _Look:
    at: float
    ends: Mapping[Key, tuple[int, int]]  # position and end offset


class ReplicationRate:
    """Keeps what a node reported during the last `WINDOW_S`. ``clock`` returns monotonic seconds.

    A. A rate is never negative: it covers partitions whose position was known at both ends of the window.
    B. `furthest` does not decrease when a partition becomes unknown or is copied again from its stored offset.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._looks: deque[_Look] = deque()
        self._furthest: dict[Key, tuple[int, int]] = {}

    def take(self, flows: Iterable[FlowStatus]) -> None:
        """Add the current state of the node."""
        now = self._clock()
        ends = {
            (flow.flow, topic.topic, one.partition): found
            for flow in flows
            for topic in flow.topics
            for one in topic.partitions
            if (found := _ends(one)) is not None
        }
        for key, (position, end) in ends.items():
            position_before, end_before = self._furthest.get(key, (0, 0))
            recreated = end < end_before  # the topic: what was known of the previous one is void
            self._furthest[key] = (position if recreated else max(position, position_before), end)
        self._looks.append(_Look(now, ends))
        while len(self._looks) > 2 and self._looks[1].at <= now - WINDOW_S:
            self._looks.popleft()

    def forget(self) -> None:
        """Drop everything: the node does not answer any more, so that its rates and positions are out of date."""
        self._looks.clear()
        self._furthest.clear()

    def furthest(self, flow: str, topic: str, partition: PartitionStatus) -> tuple[int, int] | None:
        """Return the highest position and the last end offset seen of a partition, None if they were never known."""
        return self._furthest.get((flow, topic, partition.partition)) or _ends(partition) or _last_ends(partition)

    def rate(self, *keys: Key) -> float | None:
        """Return the source offsets of these partitions copied per second, None if that is unknown of all of them."""
        moved = self._moved(keys)
        return None if moved is None else moved[0]

    def of(self, flow: FlowStatus) -> FlowPace:
        """Return the pace of a flow in its last state."""
        keys = [(flow.flow, topic.topic, one.partition) for topic in flow.topics for one in topic.partitions]
        known = [one for topic in flow.topics for one in topic.partitions if one.lag_known]
        records = sum(one.lag_records or 0 for one in known) if known else None
        ages = [one.lag_seconds for one in known]
        age = max((one for one in ages if one is not None), default=None)
        complete = len(known) == len(keys)
        moved = self._moved(keys)
        rate, shrinks = (None, None) if moved is None else moved
        outlook, seconds = _outlook(records, rate, shrinks) if complete else (CatchUpEstimate.UNKNOWN, None)
        return FlowPace(
            partitions=len(keys),
            unknown=len(keys) - len(known),
            caught_up=sum(one.lag_records == 0 for one in known),
            lag_records=records if complete else None,
            lag_seconds=age if complete and None not in ages else None,
            lag_records_at_least=records,
            lag_seconds_at_least=age,
            records_per_second=rate,
            catch_up_seconds=seconds,
            outlook=outlook,
        )

    def _moved(self, keys: Iterable[Key]) -> tuple[float, float] | None:
        """Return the offsets copied per second, and by how many the lag shrinks, of partitions known both times."""
        if len(self._looks) < 2:
            return None
        first, last = self._looks[0], self._looks[-1]
        both = [key for key in keys if key in first.ends and key in last.ends]
        if not both or last.at <= first.at:
            return None
        copied = written = 0
        for key in both:
            (position_then, end_then), (position, end) = first.ends[key], last.ends[key]
            copied += max(0, position - position_then)  # a restarted source task resumes from the stored offset
            written += max(0, end - end_then)
        seconds = last.at - first.at
        return copied / seconds, (copied - written) / seconds


def _ends(partition: PartitionStatus) -> tuple[int, int] | None:
    if partition.position is None or partition.end_offset is None:
        return None
    return partition.position, partition.end_offset


def _last_ends(partition: PartitionStatus) -> tuple[int, int] | None:
    if partition.position is None or partition.last_end_offset is None:
        return None
    return partition.position, partition.last_end_offset


def _outlook(lag: int | None, rate: float | None, shrinks: float | None) -> tuple[CatchUpEstimate, float | None]:
    if lag == 0:
        return CatchUpEstimate.CAUGHT_UP, 0.0
    if lag is None or rate is None or shrinks is None:
        return CatchUpEstimate.UNKNOWN, None
    if rate == 0:
        return CatchUpEstimate.STANDING_STILL, None
    if lag <= rate * IN_FLIGHT_S:
        return CatchUpEstimate.KEEPING_UP, lag / rate
    return (CatchUpEstimate.CATCHING_UP, lag / shrinks) if shrinks > 0 else (CatchUpEstimate.FALLING_BEHIND, None)
