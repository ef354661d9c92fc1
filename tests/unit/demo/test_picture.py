"""The demo's table: totals of the newest look, rates between two."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.demo.events import STREAMS, Stream
from tests.demo.picture import Look, TopicTotals, own_id, picture, together

EARLIER = Look(
    at=10.0,
    state="WAITING",
    reasons=(),
    topics={"orders": TopicTotals(records=100, bytes=1_000_000, latency_seconds=1.0, latency_batches=10)},
    heartbeats=9,
    passed_through=0,
    batches=0,
)
NOW = Look(
    at=12.0,
    state="RUNNING",
    reasons=("a sentence",),
    topics={
        "orders": TopicTotals(
            state="RUNNING", records=300, bytes=5_000_000, lag=7, latency_seconds=1.5, latency_batches=20
        ),
        "heartbeats": TopicTotals(records=12),
    },
    heartbeats=11,
    passed_through=3,
    batches=4,
)


def test_rates_are_between_the_looks_and_totals_are_the_newest() -> None:
    shown = picture(EARLIER, NOW, {"orders": 310, "clicks": 5})

    orders, clicks = shown.rows
    assert (orders.written, orders.replicated, orders.lag, orders.state) == (310, 300, 7, "RUNNING")
    assert orders.megabytes_per_second == pytest.approx(2.0)
    assert orders.latency_ms == pytest.approx(50.0)
    assert (clicks.written, clicks.replicated, clicks.state, clicks.latency_ms) == (5, 0, "WAITING", None)
    assert (shown.total.written, shown.total.replicated) == (315, 300)
    assert shown.total.latency_ms == pytest.approx(50.0)
    assert (shown.heartbeats, shown.pass_through, shown.reasons) == (11, 0.75, ("a sentence",))


def test_the_first_look_has_no_rates_and_no_share() -> None:
    shown = picture(EARLIER, EARLIER, {"orders": 100})

    assert shown.total.megabytes_per_second == 0
    assert shown.total.latency_ms is None
    assert shown.pass_through is None


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.topic)
def test_events_are_repeatable_and_never_larger_than_a_page(stream: Stream) -> None:
    first = [stream.event(random.Random(number), number) for number in range(200)]

    assert first == [stream.event(random.Random(number), number) for number in range(200)]
    assert all(len(record.value or b"") < 4096 for record in first)


def test_several_nodes_are_one_and_what_an_ended_one_copied_counts() -> None:
    leader = replace(NOW, leads=True, tasks=("slot 0",))
    follower = replace(EARLIER, at=12.0, state="WAITING")
    ended = replace(NOW, heartbeats=5)

    one = together([follower, leader], [ended], 12.0)

    assert one is not None
    assert (one.state, one.reasons, one.heartbeats) == ("RUNNING", ("a sentence",), 25)
    orders = one.topics["orders"]
    assert (orders.state, orders.records, orders.lag) == ("RUNNING", 700, 7)


def test_no_node_is_no_look() -> None:
    assert together([], [NOW], 12.0) is None


def test_a_node_finds_itself_by_its_address() -> None:
    flow = {"members": [{"node": "one", "url": "http://a:1"}, {"node": "two", "url": "http://a:2"}]}
    assert own_id(flow, "http://a:2") == "two"
    assert own_id(flow, "http://a:3") == ""
