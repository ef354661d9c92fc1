from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mm2.cli.topic_rows import FlowTopics, TopicRow, by_rules, merged, of_node
from mm2.cli.topics import named, topics_json, topics_view
from mm2.cli.trouble import UsageError
from mm2.config.load import load
from mm2.config.settings import FlowSettings
from mm2.core.lease import TaskState
from mm2.rest.shapes import FlowShape
from tests.contract.samples import flow, partition, topic
from tests.unit.cli.views import lines


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


def test_every_topic_with_what_decides_on_it(settings: FlowSettings) -> None:
    found = by_rules(settings, SOURCE, {"own"}, {"A.orders": 3, "A.pay": 1})
    assert found == (
        row(
            "B.orders",
            None,
            1,
            reason="it was replicated from the target of this flow, directly or over other clusters",
        ),
        row("__state", None, 5, reason="it is internal to Kafka or MirrorMaker"),
        row("orders", "A.orders", 3, remote_partitions=3),
        row(
            "orders-new", "A.orders-new", 1, remote_partitions=0, reason="remote topic A.orders-new does not exist yet"
        ),
        row("orders-old", None, 1, reason="topics.exclude leaves it out: orders-old"),
        row("own", None, 50, reason="it is internal to Kafka or MirrorMaker"),
        row("pay", "A.pay", 2, remote_partitions=1, reason="remote topic A.pay has 1 partition, fewer than the source"),
        row("users", None, 1, reason="topics does not name it: orders.*, pay"),
    )


def test_without_the_target_nothing_is_said_of_it(settings: FlowSettings) -> None:
    (orders,) = (one for one in by_rules(settings, SOURCE, (), None) if one.topic == "orders")
    assert orders == row("orders", "A.orders", 3)


def test_heartbeats_go_along_though_topics_does_not_name_them(settings: FlowSettings) -> None:
    assert by_rules(settings, {"heartbeats": 1}, (), None) == (row("heartbeats", "A.heartbeats", 1),)


NODE = of_node(
    FlowShape.of(
        flow(
            topic("users"),
            topic("orders", partition(0), partition(1, error="offset 17 is too large", state=TaskState.FAILED)),
        )
    )
)


def test_what_a_node_shows() -> None:
    assert NODE.topics == (
        row("orders", "A.orders", 2, state=TaskState.RUNNING, reason="offset 17 is too large"),
        row("users", "A.users", 1, state=TaskState.RUNNING),
    )


def test_the_clusters_add_what_the_node_does_not_tell() -> None:
    told = FlowTopics(
        flow="A->B",
        enabled=True,
        state=None,
        topics=(row("hidden", None, 1, reason="left out"), row("orders", "A.orders", 2, remote_partitions=2)),
        notes=("A->B: cluster B was slow",),
    )
    both = merged(NODE, told)
    assert both.topics == (
        row("hidden", None, 1, reason="left out"),
        row("orders", "A.orders", 2, remote_partitions=2, state=TaskState.RUNNING, reason="offset 17 is too large"),
        row("users", "A.users", 1, state=TaskState.RUNNING),
    )
    assert (both.state, both.notes) == (TaskState.RUNNING, told.notes)


def test_a_flow_by_its_name() -> None:
    assert named([NODE], None) == named([NODE], "A->B") == [NODE]
    with pytest.raises(UsageError, match=r"no enabled flow 'B->A'\. The node has A->B\."):
        named([NODE], "B->A")


def test_view() -> None:
    asked = FlowTopics(
        flow="C->B",
        enabled=True,
        state=None,
        topics=(row("a", "C.a", 1, remote_partitions=0, reason="gone"), row("b", None, 9, reason="left out")),
    )
    assert lines(topics_view([NODE, asked])) == [
        "A->B  RUNNING  2 topics",
        "topic   remote topic  partitions  on target  state",
        "orders  A.orders               2          -  RUNNING  offset 17 is too large",
        "users   A.users                1          -  RUNNING",
        "",
        "C->B  node not asked  1 topic, 1 not replicated",
        "topic  remote topic  partitions  on target  state",
        "a      C.a                    1          0  -               gone",
        "b      -                      9          -  not replicated  left out",
    ]
    assert lines(topics_view([])) == ["nothing is replicated"]


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
