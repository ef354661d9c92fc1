"""Status of partitions that no lane reports: see the invariants of `FlowObservations`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import TopicPartition
from mm2.core.observation.retention import TopicRetention
from mm2.core.settings.client import FetchSettings, OffsetReset
from mm2.node.observe.flow_observations import BEHIND_S, END_VALID_S, FlowObservations
from mm2.node.status.status_model import FlowStatus, PartitionStatus, TopicStatus
from tests.contract.samples import flow, partition, topic, unheard

START = 1_763_740_900.0  # later than what `unheard` partitions have heard
ORDERS = TopicPartition("orders", 0)
PAUSED = {"state": TaskState.PAUSED, "node": "node-1"}


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


class Observed:
    """A flow whose status is published once a second, as a node does."""

    def __init__(self, fetch: FetchSettings | None = None) -> None:
        self.clock = Clock()
        self.observations = FlowObservations("node-1", fetch or FetchSettings(), self.clock)

    def fill(
        self, *topics: TopicStatus, members: int | None = 1, is_alone: bool = True, **changes: object
    ) -> FlowStatus:
        self.clock.now += 1
        given = replace(flow(), topics=topics, **changes)  # type: ignore[arg-type]
        return self.observations.fill(given, members=members, is_alone=is_alone)

    def one(self, *topics: TopicStatus, members: int | None = 1, is_alone: bool = True) -> PartitionStatus:
        found = self.fill(*topics, members=members, is_alone=is_alone)
        return found.topics[0].partitions[0]


def copied(**changes: object) -> TopicStatus:
    return topic("orders", partition(0, node="node-1", **changes))


def idle(**changes: object) -> TopicStatus:
    """Return the topic while no lane reports it."""
    return topic(
        "orders", partition(0, position=None, end_offset=None, **{**PAUSED, **changes}), state=TaskState.PAUSED
    )


def test_what_lanes_report_is_passed_on() -> None:
    """(A)."""
    observed, given = Observed(), copied()
    assert observed.fill(given).topics[0] is given
    assert observed.fill(given).topics[0] is given
    assert observed.observations.needs.is_empty


def test_a_paused_partition() -> None:
    """(B), (C), (E)."""
    observed = Observed()
    observed.fill(copied(position=90, end_offset=100))
    paused = idle()
    shown = observed.one(paused)
    assert (shown.position, shown.end_offset, shown.lag_records) == (90, None, None), "the lane saw it up to 10 s ago"
    assert (shown.last_end_offset, shown.last_lag_records) == (100, 10)
    needs = observed.observations.needs
    assert set(needs.ends) == set(needs.positions) == set(needs.starts) == {ORDERS}
    observed.observations.take_stored({ORDERS: 80})
    observed.observations.take_ends({ORDERS: 130})
    observed.observations.take_starts({ORDERS: 20})
    shown = observed.one(paused)
    assert (shown.position, shown.end_offset, shown.lag_records) == (80, 130, 50), "it would resume there"
    needs = observed.observations.needs
    assert (dict(needs.times), set(needs.topics)) == ({ORDERS: 80}, {"orders"})
    assert (shown.retention_margin_records, shown.retention_margin_seconds) == (60, None)
    observed.observations.take_times({ORDERS: (80, round(START * 1_000))})
    observed.observations.take_retention({"orders": TopicRetention(ms=60_000)})
    shown = observed.one(paused)
    assert shown.lag_seconds == observed.clock.now - START
    assert shown.retention_margin_seconds == 60 - shown.lag_seconds
    assert not observed.observations.needs.times
    observed.observations.take_ends({ORDERS: 80})
    shown = observed.one(paused)
    assert (shown.lag_records, shown.lag_seconds, shown.retention_margin_records) == (0, 0.0, None)


def test_nothing_changes_between_two_observations() -> None:
    """(A)."""
    observed, paused = Observed(), idle()
    observed.fill(copied())
    observed.clock.now = START + 10  # a multiple of REFRESH_S
    first = observed.fill(paused).topics[0]
    assert observed.fill(paused).topics[0] is first
    observed.clock.now += 5
    assert observed.fill(paused).topics[0] is not first


def test_an_end_offset_is_out_of_date() -> None:
    """(C)."""
    observed, paused = Observed(), idle()
    observed.fill(copied(position=90, end_offset=100))
    observed.one(paused)
    observed.observations.take_ends({ORDERS: 110})
    at = observed.clock.now
    observed.clock.now = at + END_VALID_S - 1.5
    assert observed.one(paused).lag_records == 20
    shown = observed.one(paused)
    assert (shown.end_offset, shown.lag_records, shown.lag_seconds) == (None, None, None)
    assert (shown.observed, shown.last_end_offset, shown.last_lag_records) == (round(at * 1_000), 110, 20)


def test_the_last_end_offset_that_a_lane_has_told() -> None:
    """(C)."""
    observed = Observed()
    observed.fill(topic("orders", unheard(0, node="node-1")))
    shown = observed.one(idle())
    assert (shown.end_offset, shown.last_end_offset, shown.last_lag_records) == (None, 90, 0)
    assert shown.observed == unheard(0).observed


def test_a_lane_that_waits_for_a_silent_source_knows_no_less() -> None:
    observed = Observed()
    waiting = unheard(0, node="node-1", observed=round((START + 100) * 1_000))
    observed.one(topic("orders", waiting))
    observed.observations.take_ends({ORDERS: 95})
    assert observed.one(topic("orders", waiting)).lag_records == 5, "the node reaches the source, the lane does not"
    observed.clock.now = START + 200
    assert observed.one(topic("orders", waiting)) == waiting, "the lane was the last to hear"


def test_positions_of_another_node_are_unknown() -> None:
    """(B)."""
    observed = Observed()
    observed.fill(copied(position=90, end_offset=100))
    away = topic("orders", partition(0, position=None, end_offset=None, node="node-2"))
    assert observed.one(away, members=2) == away.partitions[0]
    assert observed.observations.needs.is_empty
    shown = observed.one(idle(), members=2)
    assert (shown.position, shown.lag_records) == (None, None), "node-2 may have copied since"
    observed.observations.take_stored({ORDERS: 95})
    assert observed.one(idle(), members=2).position == 95


def test_a_node_without_membership_that_was_alone() -> None:
    """(B), (D)."""
    observed = Observed()
    observed.fill(copied(position=90, end_offset=100), topic("users", partition(0, node="node-1"), error="denied"))
    lost = observed.fill(members=None)
    assert [(one.topic, one.state) for one in lost.topics] == [("orders", "WAITING"), ("users", "FAILED")]
    shown = lost.topics[0].partitions[0]
    assert (shown.state, shown.position, shown.lag_records) == (TaskState.WAITING, 90, None)
    observed.observations.take_stored({ORDERS: 7})
    observed.observations.take_ends({ORDERS: 140})
    assert observed.one(members=None).lag_records == 50, "what was read after the membership was lost does not count"
    back = observed.one(idle(state=TaskState.WAITING))
    assert (back.position, back.lag_records) == (None, None), "until the stored offset is read again"


@pytest.mark.parametrize(("members", "is_alone"), [(2, True), (1, False)])
def test_a_node_without_membership_that_others_can_have_replaced(members: int, is_alone: bool) -> None:
    """(B)."""
    observed = Observed()
    elsewhere = topic("users", partition(0, node="node-2"))
    observed.fill(copied(position=90, end_offset=100), members=members, elsewhere=(elsewhere,))
    lost = observed.fill(members=None, is_alone=is_alone)
    shown = lost.topics[0].partitions[0]
    assert (shown.position, shown.end_offset, shown.lag_records) == (None, None, None)
    assert (shown.last_end_offset, shown.last_lag_records) == (100, 10)
    assert shown.observed == round((observed.clock.now - END_VALID_S) * 1_000), "what its lane saw may be that old"
    observed.observations.take_ends({ORDERS: 140})
    later = observed.one(members=None)
    assert (later.lag_records, later.last_lag_records, later.lag_records_at_most) == (None, 10, 50), "positions grow"
    assert [one.topic for one in lost.elsewhere] == ["users"]
    assert lost.elsewhere[0].partitions[0].lag_records is None


def test_a_node_that_was_never_a_member() -> None:
    observed = Observed()
    assert observed.fill(members=None).topics == ()
    own = idle()
    assert observed.fill(own, members=None).topics[0].partitions[0].position is None


@pytest.mark.parametrize(
    ("fetch", "position"),
    [
        (FetchSettings(), 20),
        (FetchSettings(auto_offset_reset=OffsetReset.LATEST), 100),
        (FetchSettings(start=OffsetReset.LATEST), 100),
        (FetchSettings(auto_offset_reset=OffsetReset.NONE), None),
        (FetchSettings(start=1_763_740_800_000), None),
    ],
)
def test_a_partition_without_a_stored_offset(fetch: FetchSettings, position: int | None) -> None:
    observed = Observed(fetch)
    observed.fill(idle(node=""))
    observed.observations.take_stored({ORDERS: None})
    assert observed.one(idle(node="")).position is None
    observed.observations.take_starts({ORDERS: 20})
    observed.observations.take_ends({ORDERS: 100})
    assert observed.one(idle(node="")).position == position


def test_a_position_that_the_source_does_not_have() -> None:
    observed = Observed()
    observed.fill(idle())
    observed.observations.take_stored({ORDERS: 90})
    observed.observations.take_ends({ORDERS: 50})
    assert observed.one(idle()).position is None, "the topic was recreated"
    observed.observations.take_starts({ORDERS: 10})
    assert observed.one(idle()).lag_records == 40


def test_a_failed_partition_that_its_lane_has_not_fetched() -> None:
    """(E)."""
    observed = Observed()
    stopped = copied(state=TaskState.FAILED, position=90, end_offset=100, lag_records=10, lag_seconds=0.5)
    assert observed.one(stopped).lag_seconds is None
    observed.observations.take_times({ORDERS: (90, round((START - 500) * 1_000))})
    shown = observed.one(stopped)
    assert shown.lag_seconds == observed.clock.now - START + 500
    observed.observations.take_times({ORDERS: (90, None)})
    assert observed.one(stopped).lag_seconds is None, "its message format has no timestamps"


def test_a_lane_that_is_behind_has_a_margin() -> None:
    observed = Observed()
    behind = copied(position=90, end_offset=100, lag_records=10, lag_seconds=BEHIND_S + 10)
    assert observed.one(behind) is behind.partitions[0]
    assert (set(observed.observations.needs.starts), set(observed.observations.needs.topics)) == ({ORDERS}, {"orders"})
    observed.observations.take_starts({ORDERS: 50})
    observed.observations.take_retention({"orders": TopicRetention(ms=100_000)})
    shown = observed.one(behind)
    assert (shown.lag_seconds, shown.retention_margin_records) == (BEHIND_S + 10, 40)
    assert shown.retention_margin_seconds == pytest.approx(100 - BEHIND_S - 10, abs=0.01)


def test_deleted_topics_are_forgotten() -> None:
    observed = Observed()
    observed.fill(idle())
    observed.observations.take_stored({ORDERS: 90})
    observed.observations.take_ends({ORDERS: 100})
    observed.fill(topic("users"))
    shown = observed.one(idle())
    assert (shown.position, shown.end_offset) == (None, None)


def test_the_position_of_a_lane_before_it_knows_the_end_offset() -> None:
    observed = Observed()
    starting = copied(position=90, end_offset=None, lag_records=None, lag_seconds=None)
    observed.one(starting)
    observed.observations.take_ends({ORDERS: 95})
    shown = observed.one(starting)
    assert (shown.position, shown.lag_records) == (90, 5)
