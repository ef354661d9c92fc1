"""What limits the pace: a case for each cause, the window, and the message."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mm2.core.lanes.bottlenecks import (
    BUSY_SHARE,
    CAUGHT_UP,
    KEEPS_PACE,
    LAG_UNKNOWN,
    MEANINGS,
    NO_DATA,
    Bottleneck,
    ClusterLook,
    PartitionLook,
    PartitionWaits,
    WaitingTimes,
    limited_by,
    sum_of_waits,
    waits_for,
)
from mm2.core.lanes.partition_steps import FetchStep, RecentWaits, SendStep, Wait

IDLE = PartitionLook(fetching=FetchStep.FETCHING, sending=SendStep.IDLE)
IN_FLIGHT = replace(IDLE, sending=SendStep.IN_FLIGHT)
ALL_FETCHED = replace(IN_FLIGHT, has_fetched_all=True)
FULL = replace(IN_FLIGHT, fetching=FetchStep.FULL)
UNSENT = replace(FULL, has_unsent=True)
QUERY = replace(IDLE, sending=SendStep.AWAITS_QUERY)
THROTTLING = ClusterLook(is_throttling=True)
FAR = ClusterLook(answer_s=0.2, round_trip_s=0.08)
FAR_AND_SLOW = ClusterLook(answer_s=0.5, round_trip_s=0.08)
NEAR = ClusterLook(answer_s=0.002, round_trip_s=0.001)
BUSY = BUSY_SHARE

CASES: dict[str, tuple[PartitionLook, Bottleneck | None]] = {
    "more is to be fetched": (IDLE, Bottleneck.SOURCE),
    "more is to be fetched, all that was is in flight": (IN_FLIGHT, Bottleneck.SOURCE),
    "the source has reported a throttle time": (replace(IDLE, source=THROTTLING), Bottleneck.SOURCE_QUOTA),
    "its target does not matter": (replace(IDLE, target=THROTTLING), Bottleneck.SOURCE),
    "fetches take a round trip": (replace(IDLE, source=FAR), Bottleneck.SOURCE_LINK),
    "fetches take longer": (replace(IDLE, source=FAR_AND_SLOW), Bottleneck.SOURCE),
    "nothing was fetched yet": (replace(IDLE, source=ClusterLook(round_trip_s=0.08)), Bottleneck.SOURCE),
    "no round trip is known": (replace(IDLE, source=ClusterLook(answer_s=0.08)), Bottleneck.SOURCE),
    "quick fetches from nearby": (replace(IDLE, source=NEAR), Bottleneck.SOURCE),
    "fetches fail": (replace(IDLE, fetching=FetchStep.PAUSED), Bottleneck.SOURCE_ERRORS),
    "the source does not answer": (replace(IDLE, source_is_silent=True), Bottleneck.SOURCE_ERRORS),
    "the limit of the flow": (replace(IDLE, fetching=FetchStep.LIMITED), Bottleneck.LIMIT),
    "the limit of the flow, on a busy lane with a throttled source": (
        replace(IN_FLIGHT, fetching=FetchStep.LIMITED, busy_share=BUSY, source=THROTTLING),
        Bottleneck.LIMIT,
    ),
    "the buffer is full": (replace(IDLE, awaits_room=True), Bottleneck.ROOM),
    "in the query": (QUERY, Bottleneck.QUERY),
    "in the query, and enough is fetched": (replace(QUERY, fetching=FetchStep.FULL), Bottleneck.QUERY),
    "through the query, but not sent": (replace(QUERY, has_unsent=True), Bottleneck.TARGET),
    "being rebuilt": (replace(IDLE, sending=SendStep.PACKING), Bottleneck.LANE),
    "being taken apart": (replace(IDLE, sending=SendStep.DIVIDING), Bottleneck.LANE),
    "a lane without a pause": (replace(IDLE, busy_share=BUSY), Bottleneck.LANE),
    "and with records to send": (replace(UNSENT, busy_share=BUSY), Bottleneck.LANE),
    "and with a quota": (replace(UNSENT, busy_share=BUSY, target=THROTTLING), Bottleneck.TARGET_QUOTA),
    "a lane with pauses": (replace(UNSENT, busy_share=BUSY - 0.01), Bottleneck.TARGET),
    "records to send": (UNSENT, Bottleneck.TARGET),
    "as much in flight as may be": (FULL, Bottleneck.TARGET),
    "memory released": (replace(IN_FLIGHT, fetching=FetchStep.MEMORY_RELEASED), Bottleneck.TARGET),
    "all is in flight": (ALL_FETCHED, Bottleneck.TARGET),
    "the target has reported a throttle time": (replace(FULL, target=THROTTLING), Bottleneck.TARGET_QUOTA),
    "its source does not matter": (replace(FULL, source=THROTTLING), Bottleneck.TARGET),
    "acknowledgements take a round trip": (replace(UNSENT, target=FAR), Bottleneck.TARGET_LINK),
    "acknowledgements take longer": (replace(UNSENT, target=FAR_AND_SLOW), Bottleneck.TARGET),
    "quick acknowledgements from nearby": (replace(UNSENT, target=NEAR), Bottleneck.TARGET),
    "a dead letter is written": (replace(IDLE, sending=SendStep.AWAITS_DEAD_LETTER), Bottleneck.TARGET),
    "routed records are written": (replace(IDLE, sending=SendStep.WRITING), Bottleneck.TARGET),
    "batches fail": (replace(IDLE, sending=SendStep.BACKOFF), Bottleneck.TARGET_ERRORS),
    "batches fail, and so nothing is fetched": (
        replace(IDLE, fetching=FetchStep.PAUSED, is_retrying=True),
        Bottleneck.TARGET_ERRORS,
    ),
    "the target does not answer": (replace(IN_FLIGHT, target_is_silent=True), Bottleneck.TARGET_ERRORS),
    "the transaction is open": (replace(IDLE, has_fetched_all=True, has_uncommitted=True), Bottleneck.COMMIT),
    "nothing is left to do": (replace(IDLE, has_fetched_all=True), None),
    "a busy lane with nothing to do": (replace(IDLE, has_fetched_all=True, busy_share=1.0), None),
    "stopped by a loss": (replace(UNSENT, fetching=FetchStep.STOPPED), None),
    "leaving": (replace(UNSENT, fetching=FetchStep.DRAINING), None),
}


@pytest.mark.parametrize(("look", "expected"), CASES.values(), ids=CASES)
def test_what_is_waited_for(look: PartitionLook, expected: Bottleneck | None) -> None:
    assert waits_for(look) is expected


def test_each_cause_has_a_case_and_a_meaning() -> None:
    assert {cause for _, cause in CASES.values() if cause is not None} == set(Bottleneck) == set(MEANINGS)


def recent(behind: float, **seconds: float) -> RecentWaits:
    return RecentWaits(
        waits=tuple(Wait(on=cause.replace("_", "-"), seconds=one) for cause, one in seconds.items()), behind=behind
    )


@pytest.mark.parametrize(
    ("last_minute", "message"),
    [
        (recent(60.0, target_quota=83.0, source=17.0), "limited by the target: quota, 83 % of the last minute"),
        (recent(50.0, source_quota=1.0), "limited by the source: quota, 100 % of the last minute"),
        (recent(49.0, source=9.0, lane=1.0), "limited by the source: fetch responses, 90 % of the last 49 s"),
        (recent(1.0, lane=1.0), "limited by this lane's CPU, 100 % of the last 1 s"),
        (recent(9.0, query=6.0, target=3.0), "limited by the query, 67 % of the last 9 s; by the target:"),
        (recent(9.0, target_link=9.0), "limited by the link to the target: window full, 100 % of the last 9 s"),
        (recent(9.0, room=8.0, target=1.0), "limited by the target: acknowledgements, 100 % of the last 9 s"),
        (recent(9.0, room=8.0, query=1.0, source=1.0), "limited by the query, 90 % of the last 9 s"),
        (recent(9.0, room=9.0, source=1.0), "limited by room in the lane's buffer (mm2.lane.buffer.bytes), 90 %"),
        (recent(9.0, room=8.0, source_errors=2.0), "limited by room in the lane's buffer"),
        (recent(9.0, of_a_later_release=9.0, source=1.0), "limited by the source: fetch responses, 100 %"),
        (recent(0.9, target=0.9), KEEPS_PACE),
        (recent(0.0), KEEPS_PACE),
        (recent(9.0, of_a_later_release=9.0), KEEPS_PACE),
        (None, NO_DATA),
    ],
)
def test_the_sentence(last_minute: RecentWaits | None, message: str) -> None:
    assert limited_by(last_minute, lag=7).startswith(message)


def test_no_guess_without_a_lag() -> None:
    assert limited_by(recent(60.0, source=60.0), lag=0) == CAUGHT_UP
    assert limited_by(None, lag=0) == NO_DATA
    assert limited_by(recent(0.0), lag=None) == LAG_UNKNOWN
    assert limited_by(recent(60.0, source_errors=60.0), lag=None).startswith(
        "limited by the source: it does not answer"
    )


def test_waits_of_a_partition_are_forgotten_after_a_minute() -> None:
    waits = PartitionWaits()
    assert waits.recent(1.0) == RecentWaits()
    waits.add(Bottleneck.SOURCE, 0.5, 1.0)
    waits.add(Bottleneck.TARGET, 0.25, 1.5)
    found = waits.recent(2.0)
    assert ({one.on: one.seconds for one in found.waits}, found.behind) == ({"source": 0.5, "target": 0.2}, 0.8)
    assert waits.recent(71.0) == RecentWaits()
    assert waits.recent(72.0) == RecentWaits()


def test_the_last_minute() -> None:
    """In steps of ten seconds: at most a minute, and all of the last fifty seconds."""
    times = WaitingTimes()
    for second in range(1, 121):
        cause = Bottleneck.SOURCE if second <= 90 else Bottleneck.QUERY
        times.add({cause: 2.0}, 1.0, float(second))
    assert times.total == {Bottleneck.SOURCE: 180.0, Bottleneck.QUERY: 60.0}
    found = times.recent(120.0)
    assert {one.on: one.seconds for one in found.waits} == {"source": 42.0, "query": 60.0}
    assert found.behind == 51.0
    assert {one.on for one in times.recent(155.0).waits} == {"query"}
    assert times.recent(190.0) == RecentWaits()


def test_a_whole_minute_is_not_longer() -> None:
    times = WaitingTimes()
    for second in range(120):
        times.add({Bottleneck.SOURCE: 1.0}, 1.0, float(second))
    assert times.recent(119.0).behind == 60.0


def test_sums() -> None:
    both = sum_of_waits([recent(9.0, source=9.0, query=1.0), None, recent(20.0, source=3.0)])
    assert both == recent(20.0, source=12.0, query=1.0)
    assert sum_of_waits([None]) is None
    assert sum_of_waits([]) is None
