from __future__ import annotations

from mm2.cli.log_lines import banner, flow_line, flow_lines
from mm2.core.lease import TaskState
from tests.contract.samples import flow, heartbeat_flow, node, partition, task, topic


def test_banner() -> None:
    flows = flow(topic("orders", partition(0), partition(1)), topic("users")), heartbeat_flow()
    assert banner(node(*flows), file="mm2.properties", rest=["http://127.0.0.1:8083"]) == [
        "mm2 0.1.0, node node-1, mm2.properties",
        "  A->B  2 topics, 3 partitions: orders, users",
        "  B->A  heartbeats only",
        "  REST      http://127.0.0.1:8083 (/health /flows /metrics /docs)",
        "  Spark UI  http://127.0.0.1:4040",
    ]


def test_banner_names_a_few_topics_and_what_is_missing() -> None:
    many = flow(*(topic(f"t{number}") for number in range(7)))
    none = flow(topics=(), state=TaskState.WAITING, reasons=("cluster A is unreachable: look at A.bootstrap.servers",))
    lines = banner(node(many, none, spark_ui=None), file="f", rest=[])
    assert lines[1] == "  A->B  7 topics, 7 partitions: t0, t1, t2, t3, t4, …"
    assert lines[2] == "  A->B  no topics yet: cluster A is unreachable: look at A.bootstrap.servers"
    assert lines[3] == "  REST      none: set listeners = http://127.0.0.1:8083 to have one"
    assert lines[4] == "  Spark UI  not up"


def test_flow_line_is_what_happened_in_between() -> None:
    before = flow(topic("orders", partition(0, records_total=1_000, bytes_total=1_000_000)))
    now = flow(
        topic(
            "orders", partition(0, records_total=741_700, bytes_total=271_000_000, lag_records=1_200, lag_seconds=0.84)
        )
    )
    assert flow_line(before, now, 60) == (
        "A->B RUNNING: 12,345 records/s, 4.5 MB/s, lag 1,200 records (0.8 s), 1 topic"
    )


def test_a_quiet_flow() -> None:
    quiet = flow(topic("orders", partition(0, lag_records=0, lag_seconds=0)))
    assert flow_line(quiet, quiet, 60) == "A->B RUNNING: 0 records/s, 0 B/s, lag 0 records, 1 topic"


def test_partitions_that_come_and_go() -> None:
    before = flow(topic("gone", partition(0, records_total=10_000)), topic("orders", partition(0, records_total=0)))
    now = flow(topic("orders", partition(0, records_total=30)), topic("new", partition(0, records_total=30)))
    assert " 1.0 records/s" in flow_line(before, now, 60)


def test_the_first_line_has_no_earlier_state() -> None:
    assert "1.5 records/s" in flow_line(None, flow(), 60)
    assert "0 records/s" in flow_line(None, flow(), 0)


def test_lag_that_is_not_known_yet() -> None:
    unknown = flow(topic("orders", partition(0, position=-1, end_offset=-1)))
    assert "lag not known yet" in flow_line(None, unknown, 60)
    half = flow(topic("orders", partition(0, position=-1, end_offset=-1), partition(1, lag_records=1, lag_seconds=2)))
    assert "lag 1 record (2.0 s)" in flow_line(None, half, 60)


def test_the_first_trouble_is_named_and_the_others_counted() -> None:
    failed = flow(
        topic("orders", partition(0), partition(3, state=TaskState.FAILED, error="offset 17 is too large")),
        topic("users", state=TaskState.FAILED, error="not authorized"),
        tasks=(task(state=TaskState.FAILED, error=None),),
    )
    assert flow_line(None, failed, 60).endswith(
        "; last error: task MirrorSourceConnector-0 on node-1: no reason given (and 2 more: see /health)"
    )
    alone = flow(topic("orders", partition(3, state=TaskState.FAILED, error="offset 17 is too large")))
    assert flow_line(None, alone, 60).endswith("; last error: topic orders partition 3: offset 17 is too large")


def test_every_flow_has_its_line() -> None:
    before, now = node(heartbeat_flow(heartbeats_total=3)), node(flow(), heartbeat_flow(heartbeats_total=63))
    lines = flow_lines(before, now, 60)
    assert lines[0].startswith("A->B RUNNING: 1.5 records/s")
    assert lines[1] == "B->A RUNNING: heartbeats only, 60 sent"
