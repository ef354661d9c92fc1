from __future__ import annotations

import re
from dataclasses import replace

import pytest
from rich.console import RenderableType

from mm2.cli.errors import UsageError
from mm2.cli.node.progress_rates import ReplicationRate
from mm2.cli.node.status import Chosen, status_view
from mm2.core.coordination.pauses import PauseOrigin
from mm2.core.lanes.task_states import TaskState
from mm2.core.observation.unreplicated import unreplicated
from mm2.node.status.status_model import (
    AssignmentAuditStatus,
    ClusterStatus,
    FlowStatus,
    NodeStatus,
    PartitionStatus,
)
from tests.contract.samples import (
    COPIED_AGAIN,
    LOSS,
    flow,
    heartbeat_flow,
    member,
    node,
    partition,
    task,
    topic,
    unheard,
)
from tests.unit.cli.views import lines, shapes


def view(status: NodeStatus) -> RenderableType:
    return status_view(shapes(status), ReplicationRate(lambda: 0.0))


def test_status() -> None:
    status = node(
        flow(
            topic(
                "orders", partition(0, position=1_000, end_offset=1_500, lag_records=500, lag_seconds=2), partition(1)
            ),
            topic("users", partition(0, position=None, end_offset=None)),
        ),
        heartbeat_flow(),
    )
    assert lines(view(status)) == [
        "A->B  RUNNING  leader node-1  epoch 7",
        "topic   remote topic  state    partitions  end offset  position  records/s  lag records  lag seconds",
        "orders  A.orders      RUNNING           2       1,600     1,090          -          510          2.0",
        "users   A.users       RUNNING           1     unknown   unknown    unknown      unknown      unknown",
        "",
        "B->A  RUNNING  heartbeats only",
    ]


def test_an_age_that_is_unknown_is_not_shown_as_zero() -> None:
    """Of records that the source has deleted before they were copied: those that wait have an unknown age."""
    unknown, known = partition(0, lag_records=40, lag_seconds=None), partition(1, lag_records=2, lag_seconds=7.5)
    shown = lines(view(node(flow(topic("orders", unknown), topic("users", known, unknown)))))
    assert [re.split("  +", line)[-2:] for line in shown[2:4]] == [["40", "unknown"], ["42", "at least 7.5"]]


def test_status_shows_every_problem() -> None:
    status = node(
        flow(
            topic(
                "orders",
                partition(3, state=TaskState.FAILED, error="offset 17: [too] large"),
                state=TaskState.FAILED,
                error="no rights",
            ),
            state=TaskState.WAITING,
            leader=None,
            reasons=("cluster B is unreachable",),
            tasks=(task(state=TaskState.FAILED, error="lane 0 does not start"),),
            losses=(LOSS,),
        )
    )
    shown = lines(view(status))
    assert shown[0] == "A->B  WAITING  leader none  epoch 7"
    assert shown[3:] == [
        "  ! cluster B is unreachable",
        "  ! task MirrorSourceConnector-0 on node-1: lane 0 does not start",
        "  ! topic orders: no rights",
        "  ! topic orders partition 3: offset 17: [too] large",
        "  ! topic orders partition 0: source offsets 10 to 24 are lost: retention was faster than replication",
    ]


def test_losses_that_were_accepted_or_intended_are_no_problem() -> None:
    accepted, skipped = replace(LOSS, accepted=True), replace(LOSS, first=30, until=31, kind="skipped")
    shown = lines(view(node(flow(losses=(accepted, skipped)))))
    assert shown[3:] == ["  2 losses accepted or intended, see mm2 losses"]
    shown = lines(view(node(flow(losses=(accepted, *(replace(LOSS, partition=number) for number in range(12)))))))
    assert shown[3] == "  1 loss accepted or intended, see mm2 losses"
    assert shown[4].startswith("  ! topic orders partition 0: source offsets 10 to 24 are lost")
    assert shown[-1] == "  ! and 2 more losses, see mm2 losses"
    assert len(shown) == 3 + 1 + 10 + 1


def test_node_without_flows() -> None:
    assert lines(status_view([], ReplicationRate(lambda: 0.0))) == ["no flows on this node"]


def shared(**changes: object) -> FlowStatus:
    """Return a flow of three nodes: the first leads, the second offers no lanes, the third has no task yet."""
    status = flow(
        topic(
            "orders",
            partition(0, node="a", source_task=0, position=1_000),
            partition(1, node="b", source_task=1, lag_records=5),
            partition(2, node="b", source_task=1, position=None, lag_records=None),
            partition(3),
        ),
        leader="a",
        tasks=(
            task(node="a"),
            task(id="MirrorSourceConnector-2", node="a", state=TaskState.WAITING),
            task(id="MirrorSourceConnector-1", node="b"),
            task(id="MirrorCheckpointConnector-0", kind="checkpoint", node="a"),
            task(id="MirrorHeartbeatConnector-0", kind="heartbeat", node="old"),
            task(id="MirrorSourceConnector-3", node="", state=TaskState.WAITING),
        ),
        members=(
            member("a", "http://a:8083", leads=True),
            replace(member("b", "http://b:8083"), capacity=0),
            member("c"),
        ),
    )
    return replace(status, **changes)  # type: ignore[arg-type]


def test_the_nodes_of_a_flow() -> None:
    shown = lines(view(node(shared())))
    assert shown[1:7] == [
        "node            tasks                              partitions  records/s  lag records  lanes  release  url",
        "a     leader    source 0, 2 WAITING  checkpoint 0           1          -           10      2  0.1.0    "
        "http://a:8083",
        "b     no lanes  source 1                                    2          -   at least 5      0  0.1.0    "
        "http://b:8083",
        "c               -                                           0          -            -      2  0.1.0    -",
        "old   former    heartbeat 0                                 0          -            -      -  -        -",
        "",
    ]


def test_rates_by_node_and_topic() -> None:
    times = iter((0.0, 2.0))
    pace = ReplicationRate(lambda: next(times))
    for position in (1_000, 1_500):
        status = node(shared(topics=(topic("orders", partition(0, node="a", position=position, end_offset=2_000)),)))
        pace.take(shapes(status))
    shown = lines(status_view(shapes(status), pace, asked="http://127.0.0.1:8083"))
    assert shown[2].split()[-5:] == ["250", "10", "2", "0.1.0", "http://a:8083"]
    assert shown[8].split() == ["orders", "A.orders", "RUNNING", "1", "2,000", "1,500", "250", "10", "1.5"]
    assert shown[-1] == "from http://127.0.0.1:8083"


def test_offsets_do_not_decrease_if_a_node_crashes() -> None:
    """The position of its partition is unknown until another node copies it again from the stored offset."""
    now = [0.0]
    pace = ReplicationRate(lambda: now[0])
    shown = []
    for known in (
        {"position": 1_000, "end_offset": 1_200, "lag_records": 200},
        {"position": None, "end_offset": None},
        {"position": 900, "end_offset": 1_300, "lag_records": 400},
    ):
        now[0] += 2.0
        flows = [
            flow(topic("orders", partition(0, position=500, end_offset=500, lag_records=0), partition(1, **known)))
        ]
        pace.take(flows)
        cells = [cell.strip() for cell in lines(status_view(flows, pace))[2].split("  ") if cell.strip()]
        shown.append((cells[4], cells[5], cells[7]))
    assert shown == [
        ("1,700", "1,500", "200"),
        ("at least 1,700", "at least 1,500", "unknown"),
        ("1,800", "1,500", "400"),
    ]


def test_topics_that_are_copied_again() -> None:
    again = tuple(
        replace(COPIED_AGAIN, partition=number, until=until)
        for number, until in ((0, 1_095), (1, 20), (2, 95), (3, None))
    )
    line = "  copying orders again since 2025-11-21T16:00:00Z (by alice): "
    assert lines(view(node(shared(copying_again=again))))[-1] == f"{line}95 offsets to go, unknown of 2 partitions"
    assert lines(view(node(shared(copying_again=again[:2]))))[-1] == f"{line}95 offsets to go"
    assert lines(view(node(shared(copying_again=again[2:]))))[-1] == f"{line}unknown of 2 partitions"


def test_paused_topics_and_moving_tasks() -> None:
    moving = {"tasks": AssignmentAuditStatus(assigned=3, moving=1), "partitions": AssignmentAuditStatus(moving=1_200)}
    shown = lines(view(node(shared(paused=("orders", "users"), assignment_audit=moving))))
    assert shown[-2:] == ["  paused: orders, users", "  moving to another node: 1 task, 1,200 partitions"]
    assert lines(view(node(shared(paused=("", "users")))))[-1] == "  paused: the whole flow"
    since = {"orders": 1_763_740_800_000, "": 1_763_740_860_000}
    assert lines(view(node(shared(paused=("orders", "users"), paused_since=since))))[-1] == (
        "  paused: orders since 2025-11-21T16:00:00Z, users"
    )
    whole = lines(view(node(shared(paused=("",), paused_since=since))))
    assert whole[-1] == "  paused: the whole flow since 2025-11-21T16:01:00Z"
    by = {"orders": PauseOrigin(who="alice", reason="CHG-1234"), "": PauseOrigin(who="bob")}
    assert lines(view(node(shared(paused=("orders", "users"), paused_since=since, paused_by=by))))[-1] == (
        "  paused: orders since 2025-11-21T16:00:00Z (alice: CHG-1234), users"
    )
    whole = lines(view(node(shared(paused=("",), paused_since=since, paused_by=by))))
    assert whole[-1] == "  paused: the whole flow since 2025-11-21T16:01:00Z (bob)"
    assert lines(view(node(shared(state=TaskState.PAUSED))))[-1] == "  paused; since when is unknown"


REFUSED = "cannot reach cluster A: connection refused"


def half_failed() -> list[FlowStatus]:
    """Return a flow with three topics, of which two wait, and one without problems."""
    waits = {"state": TaskState.WAITING, "error": REFUSED}
    topics = [topic(name, *(partition(n, **waits) for n in range(100)), state=TaskState.WAITING) for name in ("a", "b")]
    line = f"200 partitions of 2 topics (a, b): {REFUSED}"
    waiting = flow(*topics, topic("c"), state=TaskState.WAITING, reasons=(line, "no room"), losses=(LOSS,))
    return [waiting, flow(flow="A->C", target="C")]


def test_one_line_for_each_cause() -> None:
    shown = lines(view(node(*half_failed())))
    assert [line for line in shown if REFUSED in line] == [f"  ! 200 partitions of 2 topics (a, b): {REFUSED}"]


def test_only_problems() -> None:
    (found,) = Chosen(problems=True).of(half_failed())
    assert [(one.topic, len(one.partitions)) for one in found.topics] == [("a", 100), ("b", 100)]
    assert (found.flow, found.members, found.tasks) == ("A->B", (), ())
    assert Chosen(problems=True).of([flow()]) == []
    assert lines(status_view([], ReplicationRate(lambda: 0.0), none="no problems")) == ["no problems"]


def test_one_topic_has_no_problems_of_others() -> None:
    (found,) = Chosen(topics=("b",)).of(half_failed())
    shown = lines(view(node(found)))
    assert [line for line in shown if "!" in line] == ["  ! no room", f"  ! topic b partitions 0-99: {REFUSED}"]
    assert [one.topic for one in found.topics] == ["b"]
    assert found.losses == ()


def test_one_flow() -> None:
    (found,) = Chosen(flow="A->C").of(half_failed())
    assert found.flow == "A->C"
    with pytest.raises(UsageError, match="no flow 'A->D' on this node; its flows: A->B, A->C"):
        Chosen(flow="A->D").of(half_failed())
    with pytest.raises(UsageError, match="topic d is not replicated"):
        Chosen(topics=("d",)).of([flow()])


def test_a_limit_is_shown() -> None:
    shown = lines(view(node(shared(max_bytes_per_second=1_500_000))))
    assert shown[-1] == "  limited to 1,500,000 bytes/s (mm2.max.bytes.per.second)"


def test_last_known_offsets_while_the_source_does_not_answer() -> None:
    shown = lines(view(node(flow(topic("orders", unheard(0), unheard(1, last_lag_records=3, last_end_offset=93))))))
    assert " ".join(shown[2].split()) == "orders A.orders RUNNING 2 at least 183 at least 180 unknown unknown unknown"
    assert shown[-1] == "  lag unknown of 2 partitions; last known: 3 records at 2025-11-21T16:00:00Z"


def test_what_limits_a_flow_with_a_lag() -> None:
    sentence = "limited by the source: quota, 100 % of the last 9 s"
    assert f"  {sentence}" in lines(view(node(flow(limited_by=sentence))))


def test_unassigned_duplicated_and_unexpected_tasks() -> None:
    counts = {"tasks": AssignmentAuditStatus(unassigned=1, duplicated=2, unexpected=3)}
    assert lines(view(node(shared(assignment_audit=counts))))[-3:] == [
        "  ! unassigned: 1 task",
        "  ! running more than once: 2 tasks",
        "  ! running unexpectedly: 3 tasks",
    ]


def test_clusters_that_do_not_answer_come_first() -> None:
    answers = {"reachable": True, "since": 0, "answered": 0, "error": None}
    clusters = (
        ClusterStatus(
            alias="A", reachable=False, since=5_000, answered=1_763_740_800_000, error="a:9092: connection refused"
        ),
        ClusterStatus(alias="B", **answers),  # type: ignore[arg-type]
        ClusterStatus(alias="C", reachable=None, since=None, answered=None, error=None),
        ClusterStatus(alias="D", reachable=False, since=5_000, answered=None, error="cannot resolve host d"),
    )
    shown = lines(status_view([heartbeat_flow()], ReplicationRate(lambda: 0.0), clusters=clusters))
    assert shown == [
        "! A has not answered since 2025-11-21T16:00:00Z: a:9092: connection refused",
        "! D has not answered since the node started: cannot resolve host d",
        "",
        "B->A  RUNNING  heartbeats only",
    ]
    assert "no flows on this node" in lines(status_view([], ReplicationRate(lambda: 0.0), clusters=clusters))


@pytest.mark.parametrize(
    ("partitions", "expected"),
    [
        ((partition(0), partition(1, lag_records=5, lag_seconds=3.21)), "15 records, 3.2 s not on B"),
        ((partition(0, lag_records=0, lag_seconds=0.0),), "0 records not on B"),
        ((partition(0, lag_seconds=None),), "10 records, unknown since when not on B"),
        (
            (partition(0), partition(1, position=None), unheard(2)),
            "at least 10 records, 1.5 s not on B (unknown of 2 partitions)",
        ),
        ((partition(0, position=None),), "unknown what is not on B"),
        (
            (unheard(0, last_lag_records=7), partition(1, position=None)),
            "unknown what is not on B; last known: 7 records at 2025-11-21T16:00:00Z",
        ),
    ],
)
def test_what_is_lost_if_the_source_dies_now(partitions: tuple[PartitionStatus, ...], expected: str) -> None:
    copied = replace(flow(topic("orders", *partitions)), unreplicated=unreplicated(partitions))
    shown = lines(status_view([copied], ReplicationRate(lambda: 0.0)))
    assert f"  if A died now: {expected}" in shown


def test_topics_whose_records_the_source_soon_deletes() -> None:
    def behind(hours: float) -> PartitionStatus:
        return partition(0, lag_seconds=500_000.0, retention_margin_records=5, retention_margin_seconds=hours * 3_600)

    well = partition(1, lag_seconds=60.0, retention_margin_records=9_000, retention_margin_seconds=3_540.0)
    shown = flow(*(topic(f"t{hours}", behind(hours), well) for hours in range(8)), topic("later", behind(25)))
    found = [line for line in lines(status_view([shown], ReplicationRate(lambda: 0.0))) if "deletes" in line]
    assert found == [
        "  ! topic t0: A deletes records that are not copied, by its retention",
        "  ! topic t1: A deletes records that are not copied in 60 min, by its retention",
        "  ! topic t2: A deletes records that are not copied in 2 h, by its retention",
        "  ! topic t3: A deletes records that are not copied in 3 h, by its retention",
        "  ! topic t4: A deletes records that are not copied in 4 h, by its retention",
        "  ! A soon deletes records of 3 more topics",
    ]


@pytest.mark.parametrize(
    ("in_part", "expected"),
    [
        ({}, None),
        ({"orders": 2}, "2 partitions of orders"),
        ({"orders": 1, "bills": 3, "users": 1}, "5 partitions of bills and 2 more topics"),
    ],
)
def test_partitions_whose_exact_offset_map_begins_after_the_log_start(
    in_part: dict[str, int], expected: str | None
) -> None:
    """Nothing is shown of partitions that are exact, or of which it is unknown."""
    topics = [
        topic(
            name,
            partition(8, exact_from=5, exact_to_start=True),
            partition(9),
            *(partition(number, exact_from=5, exact_to_start=False) for number in range(in_part.get(name, 0))),
        )
        for name in ("bills", "orders", "users")
    ]
    shown = [line for line in lines(view(node(flow(*topics)))) if "translate exactly" in line]
    text = f"  not all positions translate exactly: the map begins after the log start in {expected}"
    assert shown == ([] if expected is None else [text])
