"""The size of fetch responses over links of any speed."""

from __future__ import annotations

import pytest

from flows.source.broker_fetcher import MAX_RESPONSE_BYTES, MIN_RESPONSE_BYTES, ResponseSize

TIMEOUT = 30.0


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
    size = ResponseSize()
    arrived = [fetch(size, rate) for _ in range(100)]
    assert arrived == sorted(arrived), "all timeouts come first"
    assert arrived.count(False) <= 7
    assert size.limit / rate > TIMEOUT / 16 or size.limit == MAX_RESPONSE_BYTES, "no smaller than necessary"


def test_the_size_returns_when_the_link_is_faster() -> None:
    size = ResponseSize()
    for _ in range(20):
        size.timed_out(size.limit)
    assert size.limit == MIN_RESPONSE_BYTES
    for _ in range(7):
        assert fetch(size, 10_000_000)
    assert size.limit == MAX_RESPONSE_BYTES


def test_half_of_what_was_requested_is_tried_next() -> None:
    size = ResponseSize()
    assert not fetch(size, 10_000, promised=1_000_000)
    assert size.limit == 500_000


def test_a_response_with_little_data_proves_nothing() -> None:
    size = ResponseSize()
    size.timed_out(size.limit)
    size.received(100, 0.5, TIMEOUT)
    assert size.limit == MAX_RESPONSE_BYTES // 2
    size.received(0, 0.0, TIMEOUT)  # a clock that does not advance
