from __future__ import annotations

import json

import pytest

from mm2.cli.errors import UsageError
from mm2.cli.node.lag import lag_json, lag_view
from mm2.cli.node.lag_report import LagOrder, LagReport, lag_order
from mm2.cli.node.progress_rates import CatchUpEstimate, ReplicationRate
from mm2.cli.terminal.tables import duration
from mm2.core.lanes.task_states import TaskState
from mm2.node.status.pace_limit import shown_limit
from mm2.node.status.status_model import PartitionStatus, TopicStatus
from tests.contract.samples import flow, heartbeat_flow, node, partition, topic, unheard
from tests.unit.cli.views import lines, shapes


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def at(position: int, end: int, number: int = 0) -> PartitionStatus:
    return partition(number, position=position, end_offset=end, lag_records=end - position, lag_seconds=1.5)


UNKNOWN = partition(position=None, end_offset=None, lag_records=None)


def watched(*samples: tuple[float, TopicStatus]) -> ReplicationRate:
    """Return the rates after these samples, each taken so many seconds after the first."""
    clock = Clock()
    pace = ReplicationRate(clock)
    for seconds, seen in samples:
        clock.now = 1_000.0 + seconds
        pace.take(shapes(node(flow(seen))))
    return pace


def outlook(*samples: tuple[float, TopicStatus]) -> tuple[CatchUpEstimate, float | None]:
    whole = watched(*samples).of(*shapes(node(flow(samples[-1][1]))))
    return whole.outlook, whole.catch_up_seconds


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (at(0, 1_000), at(1_000, 1_000), (CatchUpEstimate.CAUGHT_UP, 0.0)),
        (at(0, 10_000), at(1_000, 10_000), (CatchUpEstimate.CATCHING_UP, 90.0)),  # 100/s, 9,000 to go
        (
            at(0, 10_000),
            at(1_000, 10_500),
            (CatchUpEstimate.CATCHING_UP, 190.0),
        ),  # 100/s, but 50/s arrive: 9,500 at 50/s
        (at(0, 10_000), at(1_000, 11_000), (CatchUpEstimate.FALLING_BEHIND, None)),
        (at(0, 10_000), at(0, 10_000), (CatchUpEstimate.STANDING_STILL, None)),
        (at(5_000, 5_010), at(6_000, 6_100), (CatchUpEstimate.KEEPING_UP, 1.0)),  # 100 in progress at 100/s
        (UNKNOWN, at(5, 10), (CatchUpEstimate.UNKNOWN, None)),
        (at(5, 10), UNKNOWN, (CatchUpEstimate.UNKNOWN, None)),
        (
            at(9_000, 10_000),
            at(2_000, 10_000),
            (CatchUpEstimate.STANDING_STILL, None),
        ),  # restarted from the stored offset
    ],
)
def test_outlook_of_a_flow(
    before: PartitionStatus, now: PartitionStatus, expected: tuple[CatchUpEstimate, float | None]
) -> None:
    assert outlook((0, topic("orders", before)), (10, topic("orders", now))) == expected


def test_single_sample_gives_no_rate() -> None:
    assert outlook((0, topic("orders", at(0, 10)))) == (CatchUpEstimate.UNKNOWN, None)
    assert outlook((0, topic("orders", at(10, 10)))) == (CatchUpEstimate.CAUGHT_UP, 0.0)


def test_rates_cover_the_last_ten_seconds() -> None:
    slow_then_fast = [(second, topic("orders", at(max(0, second - 20) * 50, 10_000))) for second in range(0, 32, 2)]
    assert watched(*slow_then_fast).rate(("A->B", "orders", 0)) == 50.0


def test_added_partitions_do_not_count_as_copied() -> None:
    pace = watched((0, topic("orders", at(0, 100))), (10, topic("orders", at(50, 100), at(900, 1_000, 1))))
    assert pace.rate(("A->B", "orders", 0)) == 5.0
    assert pace.rate(("A->B", "orders", 1)) is None
    assert pace.of(*shapes(node(flow(topic("orders", at(50, 100), at(900, 1_000, 1)))))).records_per_second == 5.0


def test_a_node_that_does_not_answer_any_more_leaves_no_rate() -> None:
    seen = topic("orders", at(1_000, 10_000))
    pace = watched((0, topic("orders", at(0, 10_000))), (10, seen))
    assert pace.rate(("A->B", "orders", 0)) == 100.0
    pace.forget()
    assert pace.rate(("A->B", "orders", 0)) is None
    assert pace.of(*shapes(node(flow(seen)))).outlook is CatchUpEstimate.UNKNOWN
    assert pace.furthest("A->B", "orders", at(5, 10)) == (5, 10)


def test_view_sorts_partitions_by_lag_with_unknown_lag_last() -> None:
    status = node(
        flow(
            topic(
                "orders",
                partition(0, position=None, end_offset=None),
                partition(1, lag_records=5, lag_seconds=1),
                partition(2, lag_records=5, lag_seconds=9, state=TaskState.FAILED),
            ),
            topic("users", partition(0, position=5_000, end_offset=17_345, lag_records=12_345, lag_seconds=60)),
        ),
        heartbeat_flow(),
    )
    assert lines(lag_view(LagReport(flows=shapes(status)), ReplicationRate(Clock()))) == [
        "flow  state    outlook      lag records    lag seconds  records/s  partitions  caught up",
        "A->B  RUNNING  unknown  at least 12,355  at least 60.0    unknown           4          0",
        "",
        "flow  topic   partition  state    lag records  lag seconds  records/s  position  end offset  node",
        "A->B  users           0  RUNNING       12,345         60.0          -     5,000      17,345",
        "A->B  orders          2  FAILED             5          9.0          -        90         100",
        "A->B  orders          1  RUNNING            5          1.0          -        90         100",
        "A->B  orders          0  RUNNING            -            -          -         -           -",
    ]


def test_remaining_time_of_a_flow_that_catches_up() -> None:
    seen = topic("orders", at(1_000, 10_000))
    pace = watched((0, topic("orders", at(0, 10_000))), (10, seen))
    shown = lines(lag_view(LagReport(flows=shapes(node(flow(seen)))), pace))
    assert " ".join(shown[1].split()) == "A->B RUNNING caught up in about 90 s 9,000 1.5 100 1 0"
    assert " ".join(shown[4].split()) == "A->B orders 0 RUNNING 9,000 1.5 100 1,000 10,000"


def test_view_is_limited_to_the_screen() -> None:
    flows = shapes(node(flow(topic("orders", *(at(0, number, number) for number in range(100))))))
    shown = lines(lag_view(LagReport(flows=flows), ReplicationRate(Clock()), rows=10))
    assert len(shown) == 10 + 4
    assert shown[4].split()[2] == "99"
    assert shown[-1] == "… and 91 more partitions with less or unknown lag"


def test_node_without_enabled_flows() -> None:
    assert lines(lag_view(LagReport(flows=shapes(node(heartbeat_flow()))), ReplicationRate(Clock()))) == [
        "no enabled flows"
    ]


def test_unassigned_partitions_make_the_lag_a_lower_bound_and_no_rate_negative() -> None:
    """A node crashes: its progress becomes unknown, and copying restarts from an earlier stored offset."""
    clock = Clock()
    pace = ReplicationRate(clock)
    shown = []
    for crashed in (at(5_000, 5_000, 1), replace_number(UNKNOWN, 1), at(4_000, 9_000, 1)):
        clock.now += 5
        flows = shapes(node(flow(topic("orders", at(100, 140), crashed))))
        pace.take(flows)
        (answer,) = json.loads(json.dumps(lag_json(LagReport(flows=flows), pace)))["flows"]
        shown.append([answer[key] for key in ("lag_records", "lag_records_at_least", "caught_up", "outlook")])
        assert pace.rate(("A->B", "orders", 1)) in (None, 0.0)
    assert shown == [[40, 40, 1, "unknown"], [None, 40, 0, "unknown"], [5_040, 5_040, 0, "standing still"]]


def test_recreated_topic_has_no_rate_from_its_predecessor() -> None:
    pace = watched((0, topic("orders", at(900, 1_000))), (2, topic("orders", at(5, 10))))
    assert pace.furthest("A->B", "orders", at(5, 10)) == (5, 10)


def test_json_has_null_for_unknown_values() -> None:
    flows = shapes(node(flow(topic("bücher", at(90, 100), replace_number(UNKNOWN, 1))), heartbeat_flow()))
    (shown,) = json.loads(json.dumps(lag_json(LagReport(flows=flows), ReplicationRate(Clock()))))["flows"]
    partitions = shown.pop("partitions")
    assert shown == {
        "flow": "A->B",
        "state": "RUNNING",
        "partition_count": 2,
        "unknown_partitions": 1,
        "caught_up": 0,
        "lag_records": None,
        "lag_records_at_least": 10,
        "lag_seconds": None,
        "lag_seconds_at_least": 1.5,
        "records_per_second": None,
        "observed": None,
        "last_lag_records": None,
        "lag_records_at_most": None,
        "outlook": "unknown",
        "catch_up_seconds": None,
        "limited_by": None,
    }
    assert partitions[0] == {
        "topic": "bücher",
        "partition": 0,
        "state": "RUNNING",
        "position": 90,
        "end_offset": 100,
        "lag_records": 10,
        "lag_seconds": 1.5,
        "observed": None,
        "last_end_offset": None,
        "last_lag_records": None,
        "lag_records_at_most": None,
        "records_per_second": None,
        "node": None,
        "error": None,
    }
    assert [partitions[1][key] for key in ("position", "end_offset", "lag_records", "lag_seconds")] == [None] * 4


LIMITED = "limited by the target: quota, 83 % of the last minute"


def test_what_limits_a_flow_with_a_lag() -> None:
    report = LagReport(flows=[flow(topic("orders", at(90, 100)), limited_by=LIMITED)])
    assert lines(lag_view(report, ReplicationRate(Clock())))[2] == f"A->B: {LIMITED}"
    (whole,) = json.loads(json.dumps(lag_json(report, ReplicationRate(Clock()))))["flows"]
    assert whole["limited_by"] == LIMITED


@pytest.mark.parametrize(
    ("found", "sentence", "shown"),
    [
        (at(100, 100), "caught up", None),
        (at(100, 100), "no data for the last minute", None),
        (at(90, 100), "no data for the last minute", "no data for the last minute"),
        (UNKNOWN, "no data for the last minute", None),
        (UNKNOWN, LIMITED, LIMITED),
        (at(90, 100), None, None),
    ],
)
def test_nothing_is_shown_about_a_flow_without_a_lag(
    found: PartitionStatus, sentence: str | None, shown: str | None
) -> None:
    assert shown_limit(flow(topic("orders", found), limited_by=sentence)) == shown


SILENT = flow(topic("orders", unheard(0), unheard(1, last_lag_records=3, observed=1_763_740_799_000)))


def test_the_last_known_lag_is_shown_while_the_source_does_not_answer() -> None:
    report = LagReport(flows=[SILENT])
    assert not report.is_complete
    shown = lines(lag_view(report, ReplicationRate(Clock())))
    assert [" ".join(line.split()) for line in shown] == [
        "flow state outlook lag records lag seconds records/s partitions caught up",
        "A->B RUNNING unknown unknown unknown unknown 2 0",
        "A->B: lag unknown of 2 partitions; last known: 3 records at 2025-11-21T15:59:59Z",
        "",
        "flow topic partition state lag records lag seconds records/s position end offset node",
        "A->B orders 0 RUNNING - - - 90 -",
        "A->B orders 1 RUNNING - - - 90 -",
    ]
    (whole,) = json.loads(json.dumps(lag_json(report, ReplicationRate(Clock()))))["flows"]
    assert (whole["lag_records"], whole["catch_up_seconds"], whole["unknown_partitions"]) == (None, None, 2)
    assert (whole["observed"], whole["last_lag_records"]) == (1_763_740_799_000, 3)
    names = ("end_offset", "lag_records", "lag_seconds", "observed", "last_end_offset", "last_lag_records")
    assert [whole["partitions"][1][name] for name in names] == [None, None, None, 1_763_740_799_000, 90, 3]


def test_a_report_is_complete_if_every_lag_is_known() -> None:
    assert LagReport(flows=[flow(topic("orders", at(0, 10)))]).is_complete
    assert LagReport(flows=[flow(topics=())]).is_complete
    assert not LagReport(flows=[flow(topic("orders", at(0, 10), UNKNOWN))]).is_complete
    assert not LagReport(flows=[flow(topics=())], unanswered=frozenset({"A->B"})).is_complete


def replace_number(status: PartitionStatus, number: int) -> PartitionStatus:
    return partition(number, position=status.position, end_offset=status.end_offset)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (119, "119 s"),
        (121, "2 min"),
        (7_300, "2 h"),
        (200_000, "2 d"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def ordered(order: LagOrder, *, from_node: bool = True) -> list[tuple[str, int]]:
    topics = (
        topic("b", partition(0, lag_records=5, lag_seconds=9.0, node="n2"), partition(1, lag_records=7, lag_seconds=1)),
        topic("a", partition(0, position=None, end_offset=None, node="n1"), partition(1, lag_records=6, lag_seconds=2)),
    )
    report = LagReport(flows=shapes(node(flow(*topics))), from_node=from_node)
    return [(row.topic, row.status.partition) for row in report.rows(order)]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (LagOrder.LAG, [("b", 1), ("a", 1), ("b", 0), ("a", 0)]),
        (LagOrder.SECONDS, [("b", 0), ("a", 1), ("b", 1), ("a", 0)]),
        (LagOrder.TOPIC, [("a", 0), ("a", 1), ("b", 0), ("b", 1)]),
        (LagOrder.NODE, [("a", 0), ("b", 0), ("b", 1), ("a", 1)]),
    ],
)
def test_orders_of_partitions(order: LagOrder, expected: list[tuple[str, int]]) -> None:
    assert ordered(order) == expected


def test_an_order_that_does_not_exist() -> None:
    assert lag_order("node") is LagOrder.NODE
    with pytest.raises(UsageError, match="--sort size: must be one of lag, seconds, topic, node"):
        lag_order("size")


def test_lag_from_the_clusters_shows_what_it_cannot_know_as_unknown() -> None:
    waiting = {"state": TaskState.WAITING, "lag_seconds": None}
    seen = topic(
        "orders",
        partition(0, lag_records=10, **waiting),
        partition(1, position=0, lag_records=100, node="n1", error="no offset is stored yet: starts at 0", **waiting),
        partition(2, lag_records=0, lag_seconds=0.0, state=TaskState.PAUSED),
        state=TaskState.WAITING,
    )
    report = LagReport(flows=shapes(node(flow(seen, state=TaskState.WAITING))), from_node=False, notes=("why",))
    shown = lines(lag_view(report, ReplicationRate(Clock()), order=LagOrder.TOPIC))
    assert shown == [
        "flow  state    outlook  lag records  lag seconds  records/s  partitions  caught up",
        "A->B  unknown  unknown          110  at least 0.0".replace("at least 0.0", "    unknown")
        + "          -           3          1",
        "",
        "flow  topic   partition  state    lag records  lag seconds  records/s  position  end offset  node",
        "A->B  orders          0  unknown           10            -          -        90         100",
        "A->B  orders          1  unknown          100            -          -         0         100  n1"
        "    no offset is stored yet: starts at 0",
        "A->B  orders          2  PAUSED             0          0.0          -        90         100",
    ]
    answer = json.loads(json.dumps(lag_json(report, ReplicationRate(Clock()))))
    assert answer["read_from"] == "clusters"
    (whole,) = answer["flows"]
    assert [whole[key] for key in ("state", "lag_records", "lag_seconds", "outlook")] == [None, 110, None, "unknown"]
    assert [(one["partition"], one["state"], one["node"]) for one in whole["partitions"]] == [
        (1, None, "n1"),
        (0, None, None),
        (2, "PAUSED", None),
    ]
