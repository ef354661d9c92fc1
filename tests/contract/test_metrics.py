from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mm2.core.access.failed_logins import LoginFailure
from mm2.core.lanes.bottlenecks import Bottleneck
from mm2.core.lanes.counters import Histogram, PartitionCounters, SourceTaskCounters
from mm2.core.lanes.partition_steps import Wait
from mm2.core.lanes.task_states import TaskState
from mm2.node.status.status_model import AssignmentAuditStatus, ClusterStatus, DeletedTopicStatus, Latency, NodeStatus
from tests.contract.conftest import Serve
from tests.contract.samples import (
    COPIED_AGAIN,
    LOSS_COUNTS,
    LOST,
    UNACCEPTED,
    flow,
    heartbeat_flow,
    member,
    node,
    partition,
    topic,
    unheard,
    wide_node,
)

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def series(text: str) -> Series:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def labelled(name: str, **labels: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    return name, tuple(sorted(labels.items()))


COVERAGE = ("assigned", "moving", "unassigned", "duplicated", "unexpected")
PACE = (
    *("mm2_flow_waiting_seconds", "mm2_flow_throttle_seconds"),
    *("mm2_flow_record_age_seconds", "mm2_flow_replication_latency_seconds", "mm2_flow_checkpoint_latency_seconds"),
)
SIDES = ("source", "target")
BOUNDS = ("0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "1.0", "5.0", "30.0", "120.0", "600.0", "+Inf")
A_ORDERS_0 = {"source": "A", "target": "B", "topic": "A.orders", "partition": "0"}


async def test_names_labels_and_values(serve: Serve) -> None:
    checkpoints = {"g1": Latency(count=4, seconds=0.5)}
    skipped = {"mm2-offset-syncs.B.internal": 2}
    replicating = flow(
        lost=LOST,
        loss_counts=LOSS_COUNTS,
        unaccepted_losses=UNACCEPTED,
        checkpoint_latency=checkpoints,
        skipped=skipped,
        members=(member("node-1"), member("node-2")),
        assignment_audit={"tasks": AssignmentAuditStatus(assigned=3, duplicated=1)},
    )
    answer = await (await serve(node(replicating, heartbeat_flow()))).get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = series(answer.text)
    a_b = {"source": "A", "target": "B"}
    expected = {
        labelled("mm2_source_records_total", **A_ORDERS_0): 90,
        labelled("mm2_source_bytes_total", **A_ORDERS_0): 9_000,
        labelled("mm2_source_record_age_seconds_sum", **A_ORDERS_0): 0.25,
        labelled("mm2_source_record_age_seconds_count", **A_ORDERS_0): 9,
        labelled("mm2_source_replication_latency_seconds_sum", **A_ORDERS_0): 0.5,
        labelled("mm2_source_replication_latency_seconds_count", **A_ORDERS_0): 9,
        labelled("mm2_source_lag_records", **A_ORDERS_0): 10,
        labelled("mm2_source_lag_seconds", **A_ORDERS_0): 1.5,
        labelled("mm2_source_losses_total", **A_ORDERS_0): 2,
        labelled("mm2_source_lost_records_total", **A_ORDERS_0): 15,
        labelled("mm2_source_unaccepted_losses", **A_ORDERS_0, kind="retention"): 2,
        labelled("mm2_source_unaccepted_losses", **a_b, topic="A.gone", partition="1", kind="topic-deleted"): 1,
        labelled("mm2_source_dead_letters_total", **A_ORDERS_0): 2,
        labelled("mm2_source_batches_total", **a_b, path="pass-through", reason=""): 42,
        labelled("mm2_source_batches_total", **a_b, path="rebatch", reason="compaction"): 3,
        labelled("mm2_checkpoint_latency_seconds_sum", **a_b, group="g1"): 0.5,
        labelled("mm2_checkpoint_latency_seconds_count", **a_b, group="g1"): 4,
        labelled("mm2_internal_records_skipped_total", **a_b, topic="mm2-offset-syncs.B.internal"): 2,
        labelled("mm2_heartbeats_total", **a_b): 5,
        labelled("mm2_heartbeats_total", source="B", target="A"): 0,
        labelled("mm2_node_is_leader", **a_b): 1,
        labelled("mm2_node_is_leader", source="B", target="A"): 0,
        labelled("mm2_flow_nodes", **a_b): 2,
        labelled("mm2_node_info", node="node-1", version="0.1.0"): 1,
        labelled("mm2_node_start_time_seconds"): 1_700_000_000,
        labelled("mm2_config_last_reload_seconds"): 1_700_000_000,
        **{labelled("mm2_rest_failed_logins_total", reason=reason): 0 for reason in LoginFailure},
        labelled("mm2_config_last_reload_successful"): 1,
        labelled("mm2_lane_buffer_used_bytes", lane="0"): 4096,
        labelled("mm2_lane_buffer_limit_bytes", lane="0"): 65536,
        labelled("mm2_source_end_offset_age_seconds", **A_ORDERS_0): 0,
        labelled("mm2_flow_unreplicated_records", **a_b): 10,
        labelled("mm2_flow_unreplicated_seconds", **a_b): 1.5,
        labelled("mm2_flow_unreplicated_unknown_partitions", **a_b): 0,
    }
    by_state = {key: value for key, value in found.items() if "state" in dict(key[1])}
    of_pace = {key: value for key, value in found.items() if key[0].startswith(PACE)}
    assert {key: value for key, value in found.items() if key not in by_state | of_pace} == expected
    tasks = {**a_b, "what": "tasks"}
    counts = {state: found[labelled("mm2_flow_assignment", **tasks, state=state)] for state in COVERAGE}
    assert counts == {"assigned": 3, "moving": 0, "unassigned": 0, "duplicated": 1, "unexpected": 0}
    states = {key: value for key, value in by_state.items() if key[0] == "mm2_task_state"}
    source_task = {**a_b, "task": "MirrorSourceConnector-0", "kind": "source", "node": "node-1"}
    assert {state: found[labelled("mm2_task_state", **source_task, state=state)] for state in TaskState} == {
        state: float(state == "RUNNING") for state in TaskState
    }
    assert len(states) == 3 * len(TaskState)


async def test_what_limits_the_pace_and_histograms(serve: Serve) -> None:
    """Each cause and cluster has a sample, also if nothing waited. A bucket contains those below it."""
    histogram = Histogram()
    for seconds in (0.004, 0.02, 700.0):
        histogram.observe(seconds)
    counters = SourceTaskCounters(
        waits=(Wait(on="query", seconds=2.5), Wait(on="of a later release", seconds=1.0)),
        target_throttled=1.5,
        latencies=histogram.totals,
    )
    limited = flow(counters=counters, checkpoint_latencies=histogram.totals)
    found = series((await (await serve(node(limited, heartbeat_flow()))).get("/metrics")).text)
    a_b = {"source": "A", "target": "B"}
    waiting = {key: value for key, value in found.items() if key[0] == "mm2_flow_waiting_seconds_total"}
    assert waiting == {
        labelled("mm2_flow_waiting_seconds_total", **a_b, on=cause): 2.5 * (cause is Bottleneck.QUERY)
        for cause in Bottleneck
    }
    throttled = {side: found[labelled("mm2_flow_throttle_seconds_total", **a_b, cluster=side)] for side in SIDES}
    assert throttled == {"source": 0, "target": 1.5}
    for name in ("mm2_flow_replication_latency_seconds", "mm2_flow_checkpoint_latency_seconds"):
        buckets = [found[labelled(f"{name}_bucket", **a_b, le=bound)] for bound in BOUNDS]
        assert buckets == [1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3]
        assert found[labelled(f"{name}_sum", **a_b)] == histogram.sum
        assert found[labelled(f"{name}_count", **a_b)] == 3
    assert found[labelled("mm2_flow_record_age_seconds_count", **a_b)] == 0
    assert not [key for key in found if key[0].startswith(PACE) and ("source", "B") in key[1]], "it copies no topics"


async def test_flows_topics_and_partitions_by_state(serve: Serve) -> None:
    failed = topic(
        "failed",
        partition(0),
        partition(1, state=TaskState.FAILED),
        partition(2, state=TaskState.FAILED),
        state=TaskState.FAILED,
    )
    status = node(flow(topic(), failed, state=TaskState.FAILED), heartbeat_flow(state=TaskState.WAITING))
    found = series((await (await serve(status)).get("/metrics")).text)

    def by_state(name: str, **labels: str) -> dict[str, float]:
        values = {state: found[labelled(name, **labels, state=state)] for state in TaskState}
        return {state: value for state, value in values.items() if value}

    a_b, b_a = {"source": "A", "target": "B"}, {"source": "B", "target": "A"}
    assert by_state("mm2_flow_state", **a_b, enabled="true") == {"FAILED": 1}
    assert by_state("mm2_flow_state", **b_a, enabled="false") == {"WAITING": 1}
    assert by_state("mm2_flow_topics", **a_b) == {"RUNNING": 1, "FAILED": 1}
    assert by_state("mm2_flow_partitions", **a_b) == {"RUNNING": 2, "FAILED": 2}
    assert by_state("mm2_flow_partitions", **b_a) == {}


async def test_times_of_pauses(serve: Serve) -> None:
    """Not for what is not paused, and not for a pause whose time is unknown."""
    paused = flow(
        topic("orders"), topic("users"), paused=("", "orders", "users"), paused_since={"": 1_500, "orders": 2_000}
    )
    text = (await (await serve(node(paused, heartbeat_flow()))).get("/metrics")).text
    found = {line for line in text.splitlines() if line.startswith("mm2_flow_paused_since_seconds")}
    assert found == {
        'mm2_flow_paused_since_seconds{source="A",target="B",topic=""} 1.5',
        'mm2_flow_paused_since_seconds{source="A",target="B",topic="orders"} 2.0',
    }


async def test_partitions_that_are_copied_again(serve: Serve) -> None:
    again = flow(copying_again=(COPIED_AGAIN, replace(COPIED_AGAIN, partition=1), replace(COPIED_AGAIN, topic="users")))
    text = (await (await serve(node(again, heartbeat_flow()))).get("/metrics")).text
    found = {line for line in text.splitlines() if line.startswith("mm2_flow_copying_again_partitions")}
    assert found == {
        'mm2_flow_copying_again_partitions{source="A",target="B",topic="orders"} 2.0',
        'mm2_flow_copying_again_partitions{source="A",target="B",topic="users"} 1.0',
    }


async def test_every_metric_has_help_and_the_expected_type(serve: Serve) -> None:
    text = (await (await serve(node())).get("/metrics")).text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert all(family.documentation.endswith(".") for family in families.values())
    kinds = {name: family.type for name, family in families.items()}
    assert kinds["mm2_source_records"] == kinds["mm2_source_batches"] == "counter"
    assert kinds["mm2_source_record_age_seconds"] == kinds["mm2_source_replication_latency_seconds"] == "summary"
    assert kinds["mm2_source_lag_records"] == kinds["mm2_task_state"] == kinds["mm2_node_is_leader"] == "gauge"


async def test_unknown_lag_has_no_series(serve: Serve) -> None:
    unknown = partition(position=None, end_offset=None)
    silent_source = unheard(1, last_lag_records=0)
    found = series((await (await serve(node(flow(topic("orders", unknown, silent_source))))).get("/metrics")).text)
    assert not [name for name in found if "_lag_" in name]
    assert labelled("mm2_source_lag_records", **A_ORDERS_0) not in found
    assert labelled("mm2_source_lag_seconds", **A_ORDERS_0) not in found
    assert found[labelled("mm2_source_records_total", **A_ORDERS_0)] == 90


async def test_limits(serve: Serve) -> None:
    """Only of flows with a limit; the share is unknown while the node has no session."""
    limited, unknown = flow(max_bytes_per_second=1_000_000, fetch_shares=250_000), heartbeat_flow()
    unknown = replace(unknown, max_bytes_per_second=500_000)
    found = series((await (await serve(node(limited, unknown))).get("/metrics")).text)
    assert {key: value for key, value in found.items() if key[0].endswith("_bytes_per_second")} == {
        labelled("mm2_flow_max_bytes_per_second", source="A", target="B"): 1_000_000,
        labelled("mm2_flow_max_bytes_per_second", source="B", target="A"): 500_000,
        labelled("mm2_flow_share_bytes_per_second", source="A", target="B"): 250_000,
    }


async def test_files_that_differ_and_topics_that_left_the_selection(serve: Serve) -> None:
    """No sample while it is unknown: on other nodes than the leader, or without a membership."""
    a_b = {"source": "A", "target": "B"}
    for differs, left in ((True, ("clicks", "payments")), (False, ()), (None, None)):
        status = node(flow(config_differs=differs, left_selection=left))
        found = series((await (await serve(status)).get("/metrics")).text)
        assert found.get(labelled("mm2_flow_config_differs", **a_b)) == differs
        assert found.get(labelled("mm2_flow_topics_left_selection", **a_b)) == (None if left is None else len(left))


async def test_topics_that_were_deleted_on_the_source(serve: Serve) -> None:
    """No sample while it is unknown: on other nodes than the leader, or while the source is away."""
    gone = DeletedTopicStatus(topic="payments", remote_topic="A.payments", since=None, noticed=5)
    for deleted in ((gone,), (), None):
        found = series((await (await serve(node(flow(deleted_topics=deleted)))).get("/metrics")).text)
        expected = None if deleted is None else len(deleted)
        assert found.get(labelled("mm2_flow_deleted_topics", source="A", target="B")) == expected


async def test_rows_of_queries(serve: Serve) -> None:
    """Only of partitions that have or had a query, also if all of their records were dropped."""
    rows = PartitionCounters(rows_in=100, rows_dropped=99)
    dropped = partition(1, counters=rows)
    had_one = topic("payments", partition(0, counters=replace(rows, records=90, bytes=9_000)))
    topics = (topic("orders", partition(0), dropped, query="mask"), topic("users"), had_one)
    moved = topic("moved", partition(0, counters=rows), query="mask")
    found = series((await (await serve(node(flow(*topics, elsewhere=(moved,))))).get("/metrics")).text)
    a_b = {"source": "A", "target": "B"}
    assert {key: value for key, value in found.items() if "query_rows" in key[0]} == {
        labelled(f"mm2_source_query_rows_{name}_total", **a_b, topic=remote, partition=number): value
        for remote, number, values in (
            ("A.orders", "0", (0, 0, 0)),
            ("A.orders", "1", (100, 1, 99)),
            ("A.payments", "0", (100, 1, 99)),
            ("A.moved", "0", (100, 1, 99)),
        )
        for name, value in zip(("in", "out", "dropped"), values, strict=True)
    }


async def test_partitions_of_other_nodes_are_not_exposed(serve: Serve) -> None:
    other = partition(1, node="node-2", state=TaskState.FAILED, counters=PartitionCounters())
    orders = topic("orders", partition(0, node="node-1"), other)
    members = (member("node-1", leads=True), member("node-2"))
    found = series((await (await serve(node(flow(orders, members=members)))).get("/metrics")).text)
    assert labelled("mm2_source_records_total", **A_ORDERS_0) in found
    assert labelled("mm2_source_records_total", **{**A_ORDERS_0, "partition": "1"}) not in found
    assert found[labelled("mm2_flow_partitions", source="A", target="B", state="FAILED")] == 0


async def test_counters_of_a_partition_that_moved_to_another_node_are_kept(serve: Serve) -> None:
    """Otherwise sums over partitions would decrease. The lag is exposed by the other node."""
    orders = topic("orders", partition(0, node="node-2"))
    members = (member("node-1", leads=True), member("node-2"))
    leading = flow(orders, members=members, lost=LOST)
    following = flow(topic("users", partition(0, node="node-1")), elsewhere=(orders,), members=members, lost=LOST)
    for status in (leading, following):
        found = series((await (await serve(node(status))).get("/metrics")).text)
        assert found[labelled("mm2_source_records_total", **A_ORDERS_0)] == 90
        assert found[labelled("mm2_source_replication_latency_seconds_count", **A_ORDERS_0)] == 9
        assert found[labelled("mm2_source_lost_records_total", **A_ORDERS_0)] == 15
        assert labelled("mm2_source_lag_records", **A_ORDERS_0) not in found
        assert labelled("mm2_source_lag_seconds", **A_ORDERS_0) not in found


async def test_what_a_node_observes(serve: Serve) -> None:
    """Margins are minima over a topic's partitions; what is unknown has no sample."""
    behind = partition(1, lag_seconds=90.0, retention_margin_records=70, retention_margin_seconds=600.5)
    further = partition(2, lag_seconds=500.0, retention_margin_records=7, retention_margin_seconds=None)
    orders = topic("orders", partition(0, node="node-2"), *(replace(one, node="node-1") for one in (behind, further)))
    silent = unheard(0, node="node-1", observed=round((time.time() - 100) * 1_000))
    users = topic("users", silent, partition(1, node="node-1", end_offset=None, position=None))
    clusters = tuple(
        ClusterStatus(alias=alias, reachable=reachable, since=None, answered=None, error=None)
        for alias, reachable in (("A", False), ("B", True), ("C", None))
    )
    members = (member("node-1", leads=True), member("node-2"))
    known, unknown = flow(orders, members=members), flow(users, flow="C->B", source="C", members=members)
    found = series((await (await serve(node(known, unknown, clusters=clusters))).get("/metrics")).text)
    reachable = {key: value for key, value in found.items() if key[0] == "mm2_cluster_reachable"}
    assert reachable == {
        labelled("mm2_cluster_reachable", cluster="A"): 0,
        labelled("mm2_cluster_reachable", cluster="B"): 1,
    }
    a_b, c_b = {"source": "A", "target": "B"}, {"source": "C", "target": "B"}
    assert {key: value for key, value in found.items() if "retention_margin" in key[0]} == {
        labelled("mm2_source_retention_margin_records", **a_b, topic="A.orders"): 7,
        labelled("mm2_source_retention_margin_seconds", **a_b, topic="A.orders"): 600.5,
    }
    assert {key: value for key, value in found.items() if "unreplicated" in key[0]} == {
        labelled("mm2_flow_unreplicated_records", **a_b): 20,
        labelled("mm2_flow_unreplicated_seconds", **a_b): 500,
        labelled("mm2_flow_unreplicated_unknown_partitions", **a_b): 0,
        labelled("mm2_flow_unreplicated_unknown_partitions", **c_b): 2,
    }
    ages = {
        (labels["source"], labels["partition"]): value
        for (name, pairs), value in found.items()
        if name == "mm2_source_end_offset_age_seconds" and (labels := dict(pairs))
    }
    assert ages == {("A", "1"): 0, ("A", "2"): 0, ("C", "0"): pytest.approx(100, abs=30)}


async def test_a_node_without_membership_exposes_what_it_had(serve: Serve) -> None:
    """Other nodes expose what they had."""
    orders = topic("orders", partition(0, node="node-1"), partition(1, node="node-2"))
    found = series((await (await serve(node(flow(orders, members=(), state=TaskState.WAITING)))).get("/metrics")).text)
    lags = [dict(labels)["partition"] for name, labels in found if name == "mm2_source_lag_records"]
    assert lags == ["0"]


async def test_special_characters_in_labels(serve: Serve) -> None:
    odd = 'mü "quoted" \\ back\nline'
    status = replace(flow(topic(remote_topic=odd)), source=odd)
    found = series((await (await serve(node(status))).get("/metrics")).text)
    labels = {"source": odd, "target": "B", "topic": odd, "partition": "0"}
    assert found[labelled("mm2_source_records_total", **labels)] == 90


async def test_scrapes_do_not_block_the_event_loop(serve: Serve) -> None:
    threads = set()

    def published() -> NodeStatus:
        threads.add(threading.get_ident())
        return wide_node(topics=500, partitions=10)

    client = await serve(published)
    threads.clear()  # registering the collector calls it once
    answer = await client.get("/metrics")
    assert answer.text.count("\nmm2_source_records_total{") == 5_000
    assert threads
    assert threading.get_ident() not in threads


async def test_how_far_back_the_exact_offset_map_goes(serve: Serve) -> None:
    """Only the leader knows it, of the partitions of all nodes; what is unknown has no sample."""
    orders = topic("orders", partition(0, node="node-1", exact_from=0), partition(1, node="node-2", exact_from=700))
    users = topic("users", partition(0, node="node-2"))
    members = (member("node-1", leads=True), member("node-2"))
    of_leader = flow(orders, users, members=members)
    name, labels = "mm2_source_exact_from_offset", {"source": "A", "target": "B", "topic": "A.orders"}
    found = series((await (await serve(node(of_leader))).get("/metrics")).text)
    assert {key: value for key, value in found.items() if key[0] == name} == {
        labelled(name, **labels, partition="0"): 0,
        labelled(name, **labels, partition="1"): 700,
    }
    found = series((await (await serve(node(replace(of_leader, is_leader=False)))).get("/metrics")).text)
    assert not [key for key in found if key[0] == name]
