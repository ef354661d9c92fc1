"""The demo's table: totals of the latest status, and rates between two."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.demo.picture import Look, QueryRows, TopicTotals, picture, together
from tests.demo.screen import lag_text

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
    reasons=("a reason",),
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


def test_rates_between_two_statuses_and_latest_totals() -> None:
    shown = picture(EARLIER, NOW, {"orders": 310, "clicks": 5})

    orders, clicks = shown.rows
    assert (orders.written, orders.replicated, orders.lag, orders.state) == (310, 300, 7, "RUNNING")
    assert orders.megabytes_per_second == pytest.approx(2.0)
    assert orders.latency_ms == pytest.approx(50.0)
    assert (clicks.written, clicks.replicated, clicks.state, clicks.latency_ms) == (5, 0, "WAITING", None)
    assert (shown.total.written, shown.total.replicated) == (315, 300)
    assert shown.total.latency_ms == pytest.approx(50.0)
    assert (shown.heartbeats, shown.pass_through, shown.reasons) == (11, 0.75, ("a reason",))
    assert [lag_text(row) for row in (orders, clicks, shown.total)] == ["7", "unknown", "at least 7"]


def test_nodes_are_combined_including_a_stopped_one() -> None:
    leader = replace(NOW, leads=True, tasks=("source task 0",))
    follower = replace(EARLIER, at=12.0, state="WAITING")
    ended = replace(NOW, heartbeats=5)

    one = together([follower, leader], [ended], 12.0)

    assert one is not None
    assert (one.state, one.reasons, one.heartbeats) == ("RUNNING", ("a reason",), 25)
    orders = one.topics["orders"]
    assert (orders.state, orders.records, orders.lag) == ("RUNNING", 700, 7)


def test_lag_is_unknown_and_counters_are_kept_after_a_node_crashes() -> None:
    """The remaining node does not list the topic of the crashed node at first, then lists it without progress."""
    dead = replace(NOW, leads=True)
    left = replace(
        EARLIER, at=12.0, topics={"clicks": TopicTotals(state="RUNNING", records=50, bytes=10, lag=0)}, state="RUNNING"
    )
    before = together([dead, left], [], 12.0)
    waiting = {**left.topics, "orders": TopicTotals(unknown=3)}
    written = {"orders": 900, "clicks": 50}
    assert before is not None
    for topics in (left.topics, waiting):
        now = together([replace(left, at=14.0, topics=topics)], [dead], 14.0)
        assert now is not None
        shown = picture(before, now, written)
        orders, clicks = shown.rows
        assert (orders.replicated, orders.megabytes_per_second, lag_text(orders)) == (300, 0.0, "unknown")
        assert (lag_text(clicks), lag_text(shown.total)) == ("0", "unknown")
        assert shown.total.replicated == 350


def test_partial_lag_is_a_lower_bound() -> None:
    topics = {"orders": TopicTotals(lag=1_200, unknown=1)}
    (row,) = picture(EARLIER, replace(NOW, topics=topics), {"orders": 5}).rows
    assert lag_text(row) == "at least 1,200"


def test_rows_of_a_query_are_summed_over_nodes() -> None:
    topics = {"orders": TopicTotals(query="mask", rows_in=100, rows_dropped=10), "clicks": TopicTotals()}
    one = together([replace(NOW, topics=topics), replace(NOW, topics=topics)], [], 12.0)
    assert one is not None
    orders, clicks = picture(one, one, {"orders": 200, "clicks": 5}).rows
    assert orders.rows == QueryRows(query="mask", in_=200, out=180, dropped=20)
    assert clicks.rows is None
