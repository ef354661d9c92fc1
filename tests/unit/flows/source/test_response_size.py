"""The size of fetch responses over links of any speed."""

from __future__ import annotations

import pytest

from flows.source.response_size import (
    MAX_FAR_RESPONSE_BYTES,
    MAX_RESPONSE_BYTES,
    MIN_RESPONSE_BYTES,
    ResponseSize,
)

TIMEOUT = 30.0
MIB = 1024 * 1024


def response_size(partition_bytes: int = MIB, *, may_grow: bool = True) -> ResponseSize:
    return ResponseSize(partition_bytes, may_grow=may_grow)


def fetch(size: ResponseSize, rate: float, *, waiting: int = MAX_RESPONSE_BYTES, promised: int = 1 << 30) -> bool:
    """Request ``waiting`` bytes over a link with ``rate`` bytes per second; returns whether they arrived in time."""
    requested = min(size.limit, promised)
    sent = min(requested, waiting)
    if sent / rate > TIMEOUT:
        size.timed_out(requested)
        return False
    size.received(sent, sent / rate, TIMEOUT)
    return True


@pytest.mark.parametrize("rate", [5_000, 50_000, 100_000, 279_000, 280_000, 1_000_000, 100_000_000])
def test_a_link_of_any_speed_times_out_a_few_times_and_never_again(rate: int) -> None:
    size = response_size()
    arrived = [fetch(size, rate) for _ in range(100)]
    assert arrived == sorted(arrived), "all timeouts come first"
    assert arrived.count(False) <= 7
    assert size.limit / rate > TIMEOUT / 16 or size.limit == MAX_RESPONSE_BYTES, "no smaller than necessary"


def test_the_size_returns_when_the_link_is_faster() -> None:
    size = response_size()
    for _ in range(20):
        size.timed_out(size.limit)
    assert size.limit == MIN_RESPONSE_BYTES
    for _ in range(7):
        assert fetch(size, 10_000_000)
    assert size.limit == MAX_RESPONSE_BYTES


def test_half_of_what_was_requested_is_tried_next() -> None:
    size = response_size()
    assert not fetch(size, 10_000, promised=1_000_000)
    assert size.limit == 500_000


def test_a_response_with_little_data_proves_nothing() -> None:
    size = response_size()
    size.timed_out(size.limit)
    size.received(100, 0.5, TIMEOUT)
    assert size.limit == MAX_RESPONSE_BYTES // 2
    size.received(0, 0.0, TIMEOUT)  # a clock that does not advance


def fetch_far(size: ResponseSize, *, rate: float, round_trip: float | None, partitions: int = 1) -> float:
    """Fetch from partitions with endless backlogs; returns the part of the link's rate that was used."""
    requested = size.limit
    largest = min(size.partition_bytes, requested)
    sent = min(requested, partitions * largest)
    elapsed = (round_trip or 0.0) + sent / rate
    size.received(sent, elapsed, TIMEOUT)
    size.adapt(sent, largest, requested, elapsed, round_trip)
    return sent / elapsed / rate


@pytest.mark.parametrize("partitions", [1, 6, 40])
@pytest.mark.parametrize(
    ("round_trip", "rate", "share"),
    [(0.03, 50e6, 0.8), (0.085, 50e6, 0.8), (0.15, 50e6, 0.8), (0.085, 125e6, 0.7), (0.3, 10e6, 0.8)],
)
def test_a_long_link_is_used(partitions: int, round_trip: float, rate: float, share: float) -> None:
    size = response_size()
    used = [fetch_far(size, rate=rate, round_trip=round_trip, partitions=partitions) for _ in range(20)]
    assert used[-1] >= share
    assert len(set(used[-10:])) == 1, "it has settled"


@pytest.mark.parametrize("round_trip", [None, 0.0005, 0.02])
def test_nearby_and_at_an_unknown_distance_nothing_more_is_requested(round_trip: float | None) -> None:
    size = response_size()
    for _ in range(20):
        fetch_far(size, rate=1e9, round_trip=round_trip)
    assert (size.partition_bytes, size.limit) == (MIB, MAX_RESPONSE_BYTES)


def test_a_limit_of_the_file_is_kept() -> None:
    size = response_size(may_grow=False)
    for _ in range(20):
        fetch_far(size, rate=50e6, round_trip=0.085)
    assert (size.partition_bytes, size.limit) == (MIB, MAX_RESPONSE_BYTES)


def test_responses_with_what_there_was_change_nothing() -> None:
    size = response_size()
    for _ in range(20):
        size.adapt(MIB // 2, MIB // 2, size.limit, 0.1, 0.085)
    assert size.partition_bytes == MIB


def test_a_link_that_has_become_slow_gets_smaller_responses_again() -> None:
    size = response_size()
    for _ in range(20):
        fetch_far(size, rate=125e6, round_trip=0.085)
    assert size.partition_bytes == MAX_FAR_RESPONSE_BYTES
    for _ in range(20):
        fetch_far(size, rate=5e6, round_trip=0.085)
    assert size.partition_bytes <= 8 * MIB
    for _ in range(20):
        size.timed_out(size.limit)
    assert (size.partition_bytes, size.limit) == (MIB, MIN_RESPONSE_BYTES)
