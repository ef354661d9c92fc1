from __future__ import annotations

from dataclasses import replace

from mm2.core.lanes.counters import PartitionCounters
from mm2.core.lanes.task_states import TaskState
from mm2.node.status.status_model import EngineStatus
from mm2.program.log_lines import first_line, flow_line, flow_lines, start_lines
from tests.contract.samples import flow, heartbeat_flow, member, node, partition, task, topic, unheard


def test_the_first_line_names_release_node_and_file() -> None:
    assert first_line("0.1.0", "node-1", "mm2.properties") == "mm2 0.1.0, node node-1, mm2.properties"


def test_start_lines() -> None:
    flows = flow(topic("orders", partition(0), partition(1)), topic("users")), heartbeat_flow()
    assert start_lines(node(*flows), rest=["http://127.0.0.1:8083"]) == [
        "node node-1 has started:",
        "  A->B  2 topics, 3 partitions: orders, users",
        "  B->A  heartbeats only",
        "  REST      http://127.0.0.1:8083 (/health /flows /metrics /docs)",
        "  Spark UI  http://127.0.0.1:4040",
    ]


def test_start_lines_have_the_ui_of_each_engine() -> None:
    main, queries = (
        EngineStatus(engine=name, error=None, spark_ui=url, pid=1, jvm_pid=2, memory_bytes=None)
        for name, url in (("main", "http://127.0.0.1:4040"), ("queries", "http://127.0.0.1:4041"))
    )
    starting = replace(queries, error="it is starting", spark_ui=None)
    assert start_lines(node(engines=(main, queries)), rest=[])[-2:] == [
        "  Spark UI  http://127.0.0.1:4040",
        "  Spark UI  http://127.0.0.1:4041 (queries)",
    ]
    assert start_lines(node(engines=(main, starting)), rest=[])[-1] == "  Spark UI  http://127.0.0.1:4040"


def test_start_lines_are_limited_to_a_few_topics() -> None:
    many = flow(*(topic(f"t{number}") for number in range(7)))
    none = flow(topics=(), state=TaskState.WAITING, reasons=("cluster A is unreachable: check A.bootstrap.servers",))
    lines = start_lines(node(many, none, spark_ui=None), rest=[])
    assert lines[1] == "  A->B  7 topics, 7 partitions: t0, t1, t2, t3, t4, …"
    assert lines[2] == "  A->B  no topics yet: cluster A is unreachable: check A.bootstrap.servers"
    assert lines[3] == "  REST      none (set listeners = http://127.0.0.1:8083 to enable it)"
    assert lines[4] == "  Spark UI  not available yet"


def test_flow_line_shows_the_interval() -> None:
    before = flow(topic("orders", partition(0, counters=PartitionCounters(records=1_000, bytes=1_000_000))))
    now = flow(
        topic(
            "orders",
            partition(
                0,
                counters=PartitionCounters(records=741_700, bytes=271_000_000),
                lag_records=1_200,
                lag_seconds=0.84,
            ),
        )
    )
    assert flow_line(before, now, 60) == (
        "A->B RUNNING: 12,345 records/s, 4.5 MB/s, lag 1,200 records (0.8 s), 1 topic"
    )


def test_idle_flow() -> None:
    quiet = flow(topic("orders", partition(0, lag_records=0, lag_seconds=0)))
    assert flow_line(quiet, quiet, 60) == "A->B RUNNING: 0 records/s, 0 B/s, lag 0 records, 1 topic"


def test_added_and_removed_partitions() -> None:
    """A returning partition is not counted twice, and a removed one does not decrease the counts."""
    before = flow(topic("deleted", partition(0)), topic("orders", partition(0)), records_total=10_000)
    now = flow(topic("orders", partition(0)), topic("back", partition(0)), records_total=10_060)
    assert " 1.0 records/s" in flow_line(before, now, 60)


def test_first_line_starts_at_zero() -> None:
    assert "1.5 records/s" in flow_line(None, flow(), 60)
    assert "0 records/s" in flow_line(None, flow(), 0)


def test_unknown_lag() -> None:
    unknown = partition(0, position=None, end_offset=None)
    assert "lag unknown" in flow_line(None, flow(topic("orders", unknown)), 60)
    caught_up = partition(1, lag_records=0, lag_seconds=0)
    assert "lag unknown" in flow_line(None, flow(topic("orders", unknown, caught_up)), 60)
    behind = partition(1, lag_records=1, lag_seconds=2)
    assert "lag at least 1 record (2.0 s)" in flow_line(None, flow(topic("orders", unknown, behind)), 60)
    assert "lag 0 records" in flow_line(None, flow(topics=()), 60)
    assert "lag unknown, topics unknown" in flow_line(None, flow(topics=(), state=TaskState.WAITING), 60)


def test_the_last_known_lag_is_shown_while_a_source_does_not_answer() -> None:
    silent = flow(topic("orders", unheard(0), unheard(1, last_lag_records=3, observed=1_763_740_799_000)))
    last = "3 records at 2025-11-21T15:59:59Z"
    assert f"lag unknown (last known: {last}), 1 topic" in flow_line(None, silent, 60)
    behind = partition(2, lag_records=1, lag_seconds=2)
    partly = flow(topic("orders", *silent.topics[0].partitions, behind))
    assert f"lag at least 1 record (2.0 s) (last known: {last}), 1 topic" in flow_line(None, partly, 60)


def test_paused_topics_are_not_an_error() -> None:
    line = flow_line(None, flow(paused=("orders",), reasons=("no room in the Spark cluster",)), 60)
    assert line.endswith(
        "1 topic; paused by an operator: orders; mm2 resume ends the pause; last error: no room in the Spark cluster"
    )
    assert "last error" not in flow_line(None, flow(paused=("",), state=TaskState.PAUSED), 60)


def test_line_covers_partitions_of_this_node_only() -> None:
    """The leader's knowledge of other nodes is not part of its own lag."""
    elsewhere = partition(1, position=None, end_offset=None, node="node-2")
    shared = flow(topic("orders", partition(0, node="node-1"), elsewhere), members=(member("node-1"), member("node-2")))
    (line,) = flow_lines(node(shared), node(shared), 60)
    assert line == "A->B RUNNING: 0 records/s, 0 B/s, lag 10 records (1.5 s), 1 topic"


def test_first_error_is_shown_and_the_others_are_counted() -> None:
    failed = flow(
        topic("orders", partition(0), partition(3, state=TaskState.FAILED, error="offset 17 is too large")),
        topic("users", state=TaskState.FAILED, error="not authorized"),
        tasks=(task(state=TaskState.FAILED, error=None),),
    )
    assert flow_line(None, failed, 60).endswith(
        "; last error: task MirrorSourceConnector-0 on node-1: it failed without a message; see the log of node"
        " node-1 (and 2 more: see /health)"
    )
    alone = flow(topic("orders", partition(3, state=TaskState.FAILED, error="offset 17 is too large")))
    assert flow_line(None, alone, 60).endswith("; last error: topic orders partition 3: offset 17 is too large")


def test_every_flow_has_its_line() -> None:
    before, now = node(heartbeat_flow(heartbeats_total=3)), node(flow(), heartbeat_flow(heartbeats_total=63))
    lines = flow_lines(before, now, 60)
    assert lines[0].startswith("A->B RUNNING: 1.5 records/s")
    assert lines[1] == "B->A RUNNING: heartbeats only, 60 sent"


def test_removed_and_added_flow() -> None:
    """Its totals restart at zero; a rate is never negative."""
    before, now = flow(records_total=5_000, bytes_total=900_000), flow(records_total=600, bytes_total=60_000)
    assert flow_line(before, now, 60).startswith("A->B RUNNING: 10 records/s, 1.0 kB/s,")
