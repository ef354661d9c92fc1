from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mm2.cli.clusters.deleted_topics import DeletedInFlow, DeletedRow, deleted_json, deleted_view
from mm2.cli.errors import UsageError
from mm2.cli.node.topic_rows import FlowTopics, TopicRow, by_rules, merged, of_node
from mm2.cli.node.topics import named, topics, topics_json, topics_view
from mm2.config.load import load
from mm2.config.settings import FlowSettings
from mm2.core.lanes.task_states import TaskState
from mm2.core.topics.deleted_topics import Deletion
from tests.contract.samples import flow, partition, topic
from tests.unit.cli.views import lines
from tests.unit.config import files


@pytest.fixture
def settings(tmp_path: Path) -> FlowSettings:
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = A, B\nA.bootstrap.servers = a:9092\nB.bootstrap.servers = b:9092\n"
        "A->B.enabled = true\nA->B.topics = orders.*, pay\nA->B.topics.exclude = orders-old\n"
    )
    loaded = load(file).settings
    assert loaded is not None
    (one,) = (one for one in loaded.flows if one.enabled)
    return one


def row(name: str, remote: str | None, partitions: int, **changes: object) -> TopicRow:
    return replace(TopicRow(topic=name, remote_topic=remote, partitions=partitions), **changes)  # type: ignore[arg-type]


SOURCE = {"pay": 2, "orders": 3, "orders-new": 1, "orders-old": 1, "users": 1, "B.orders": 1, "__state": 5, "own": 50}


def test_every_topic_with_its_reason(settings: FlowSettings) -> None:
    found = by_rules(settings, SOURCE, {"own"}, {"A.orders": 3, "A.pay": 1})
    assert found == (
        row(
            "B.orders",
            None,
            1,
            reason="it was replicated from the target of this flow, directly or through other clusters",
        ),
        row("__state", None, 5, reason="it is internal to Kafka or MirrorMaker"),
        row("orders", "A.orders", 3, remote_partitions=3),
        row(
            "orders-new", "A.orders-new", 1, remote_partitions=0, reason="remote topic A.orders-new does not exist yet"
        ),
        row("orders-old", None, 1, reason="excluded by topics.exclude: orders-old"),
        row("own", None, 50, reason="it is internal to Kafka or MirrorMaker"),
        row("pay", "A.pay", 2, remote_partitions=1, reason="remote topic A.pay has 1 partition, fewer than the source"),
        row("users", None, 1, reason="not matched by topics: orders.*, pay"),
    )


@pytest.mark.parametrize("key", ["", "A->B.mm2.copy.returned.topics = true\n"])
def test_copies_that_come_back(tmp_path: Path, key: str) -> None:
    settings = files.flow(tmp_path, key)
    rows = {one.topic: one for one in by_rules(settings, {"orders": 1, "x.A.orders": 1}, (), {"A.orders": 1})}
    assert (rows["x.A.orders"].remote_topic is not None) is bool(key)
    assert ("in circles" in (rows["x.A.orders"].reason or "")) is not bool(key)


def test_target_state_is_omitted_if_the_target_is_not_read(settings: FlowSettings) -> None:
    (orders,) = (one for one in by_rules(settings, SOURCE, (), None) if one.topic == "orders")
    assert orders == row("orders", "A.orders", 3)


def test_query_of_a_topic(tmp_path: Path) -> None:
    settings = files.flow(
        tmp_path, "mm2.sql.key.topics = orders.*\nmm2.sql.key.query = SELECT value AS key FROM records\n"
    )
    rows = {one.topic: one for one in by_rules(settings, SOURCE, (), None)}
    assert (rows["orders"].query, rows["pay"].query, rows["B.orders"].query) == ("key", None, None)
    (reported,) = of_node(flow(topic("orders", query="key"))).topics
    assert reported.query == "key"


def test_queries_have_a_column_if_there_are_any() -> None:
    rows = (row("a", "A.a", 1, query="mask"), row("b", "A.b", 1))
    asked = FlowTopics(flow="A->B", enabled=True, state=None, topics=rows)
    assert lines(topics_view([asked])) == [
        "A->B  state unknown  2 topics",
        "topic  remote topic  query  partitions  on target  state",
        "a      A.a           mask            1          -  -",
        "b      A.b           -               1          -  -",
    ]


def test_heartbeats_are_replicated_regardless_of_topics(settings: FlowSettings) -> None:
    assert by_rules(settings, {"heartbeats": 1}, (), None) == (row("heartbeats", "A.heartbeats", 1),)


NODE = of_node(
    flow(
        topic("users"),
        topic("orders", partition(0), partition(1, error="offset 17 is too large", state=TaskState.FAILED)),
    )
)


def test_topics_of_a_node() -> None:
    assert NODE.topics == (
        row("orders", "A.orders", 2, state=TaskState.RUNNING, reason="offset 17 is too large"),
        row("users", "A.users", 1, state=TaskState.RUNNING),
    )


def test_clusters_add_what_the_node_does_not_report() -> None:
    from_clusters = FlowTopics(
        flow="A->B",
        enabled=True,
        state=None,
        topics=(row("hidden", None, 1, reason="excluded"), row("orders", "A.orders", 2, remote_partitions=2)),
        notes=("A->B: cluster B was slow",),
    )
    both = merged(NODE, from_clusters)
    assert both.topics == (
        row("hidden", None, 1, reason="excluded"),
        row("orders", "A.orders", 2, remote_partitions=2, state=TaskState.RUNNING, reason="offset 17 is too large"),
        row("users", "A.users", 1, state=TaskState.RUNNING),
    )
    assert (both.state, both.notes) == (TaskState.RUNNING, from_clusters.notes)


def test_flow_selection() -> None:
    assert named([NODE], None) == named([NODE], "A->B") == [NODE]
    with pytest.raises(UsageError, match=r"no enabled flow 'B->A'\. Enabled flows of the node: A->B\."):
        named([NODE], "B->A")


def test_view() -> None:
    asked = FlowTopics(
        flow="C->B",
        enabled=True,
        state=None,
        topics=(row("a", "C.a", 1, remote_partitions=0, reason="deleted"), row("b", None, 9, reason="excluded")),
    )
    assert lines(topics_view([NODE, asked])) == [
        "A->B  RUNNING  2 topics",
        "topic   remote topic  partitions  on target  state",
        "orders  A.orders               2          -  RUNNING  offset 17 is too large",
        "users   A.users                1          -  RUNNING",
        "",
        "C->B  state unknown  1 topic, 1 not replicated",
        "topic  remote topic  partitions  on target  state",
        "a      C.a                    1          0  -               deleted",
        "b      -                      9          -  not replicated  excluded",
    ]
    assert lines(topics_view([])) == ["no enabled flows"]


def test_json() -> None:
    (shown,) = json.loads(json.dumps(topics_json([NODE])))["flows"]
    assert (shown["flow"], shown["state"]) == ("A->B", "RUNNING")
    assert shown["topics"][0] == {
        "topic": "orders",
        "remote_topic": "A.orders",
        "partitions": 2,
        "remote_partitions": None,
        "state": "RUNNING",
        "reason": "offset 17 is too large",
    }


GONE = DeletedRow(
    topic="users",
    remote_topic="A.users",
    is_deleted=True,
    deletion=Deletion(noticed_ms=1_796_000_060_000, since_ms=None),
    records=12_000,
    copied=True,
)


def test_deleted_topics_and_what_is_unknown_about_them() -> None:
    """Of a dead source it is known what was gone; of a dead target nothing."""
    known = replace(GONE, deletion=Deletion(noticed_ms=1_796_000_000_000, since_ms=1_796_000_000_000))
    named = replace(GONE, deletion=None, records=None, copied=False)
    silent = replace(GONE, is_deleted=None)
    found = [
        DeletedInFlow(flow="A->B", rows=(known, GONE, named)),
        DeletedInFlow(flow="C->B", rows=(silent,), failures=("cluster C is unreachable",)),
        DeletedInFlow(flow="A->D", rows=None, failures=("cluster D is unreachable",)),
    ]
    by_name = "by its name only: no source offset tells that the flow copied it"
    assert lines(deleted_view(found)) == [
        "A->B  3 remote topics without source topic",
        "topic  remote topic  deleted since                         records",
        "users  A.users       2026-11-30T00:53:20Z                   12,000",
        "users  A.users       unknown, before 2026-11-30T00:54:20Z   12,000",
        f"users  A.users       unknown                                     -  {by_name}",
        "",
        "C->B  unknown",
        "topic  remote topic  deleted since                         records",
        "users  A.users       unknown, before 2026-11-30T00:54:20Z   12,000  unknown whether it still is",
        "",
        "A->D  unknown",
    ]
    assert lines(deleted_view([])) == ["no enabled flows"]
    flows = deleted_json(found)["flows"]
    assert isinstance(flows, list)
    assert [one["topics"] and [row["deleted"] for row in one["topics"]] for one in flows] == [
        [True, True, True],
        [None],
        None,
    ]
    assert flows[0]["topics"][2] == {
        "topic": "users",
        "remote_topic": "A.users",
        "deleted": True,
        "since": None,
        "noticed": None,
        "records": None,
        "copied": False,
    }


@pytest.mark.parametrize("node", ["http://localhost:8083", "mm2.properties"])
def test_deleted_needs_the_file_alone(node: str) -> None:
    with pytest.raises(UsageError, match="--deleted needs FILE"):
        topics(node, deleted=True, everything="://" not in node)
