"""What operators do with a SQL flow, and see of it: as with any other flow."""

from __future__ import annotations

from tests.integration.queries.conftest import Queried
from tests.integration.queries.queried_flow import SEEN
from tests.lab.commands import run
from tests.lab.records import Outgoing
from tests.lab.waiting import wait_until

COUNT = 1_000
HOUR_MS = 3_600_000
WRITTEN_MS = 1_700_000_000_000


def numbered(first: int) -> list[Outgoing]:
    return [Outgoing(value=b"%d" % number) for number in range(first, first + COUNT)]


def test_pause_and_resume(queried: Queried) -> None:
    flow, node = queried.flow, queried.node
    topic, other = flow.create("rare"), flow.create("rare")
    for one in (topic, other):
        flow.write(one, numbered(0))
        flow.wait_passed(node, one)
    assert run("mm2", "pause", str(node.file), "--flow", flow.name, "--topic", topic).code == 0
    wait_until(
        lambda: {one["state"] for one in node.topic(flow.name, topic)["partitions"]} == {"PAUSED"},
        SEEN,
        "the topic is paused",
    )
    for one in (topic, other):
        flow.write(one, numbered(COUNT))
    flow.wait_passed(node, other)
    assert len(flow.copied(topic)[0]) == COUNT // 100, "nothing is copied while it is paused"
    assert run("mm2", "resume", str(node.file), "--flow", flow.name, "--topic", topic).code == 0
    flow.wait_passed(node, topic)
    survivors = [b"%d" % number for number in range(2 * COUNT) if number % 100 == 7]
    assert [record.value for record in flow.copied(topic)[0]] == survivors


def test_metrics_of_rows(queried: Queried) -> None:
    flow, node = queried.flow, queried.node
    labels = {"source": flow.a, "target": flow.b}
    batches = node.metric("mm2_source_batches_total", path="sql", **labels)
    topic = flow.create("rare")
    flow.write(topic, numbered(0))
    flow.wait_passed(node, topic)
    of_topic = {**labels, "topic": flow.remote(topic)}
    found = {name: node.metric(f"mm2_source_query_rows_{name}_total", **of_topic) for name in ("in", "out", "dropped")}
    assert found == {"in": COUNT, "out": COUNT // 100, "dropped": COUNT - COUNT // 100}
    assert node.metric("mm2_source_batches_total", path="sql", **labels) > batches
    assert node.metric("mm2_source_query_rows_in_total", **labels, topic=flow.remote(flow.create("plain"))) == 0


def test_a_topic_with_append_times(queried: Queried) -> None:
    flow, node = queried.flow, queried.node
    topic = flow.create("parts", config={"message.timestamp.type": "LogAppendTime"})
    flow.write(topic, [Outgoing(value=b"v", timestamp_ms=WRITTEN_MS)] * 10)
    flow.wait_passed(node, topic)
    appended = [record.content[3] for record in flow.written(topic)[0]]
    assert min(appended) > WRITTEN_MS, "the broker sets the time"
    assert [record.content[3] for record in flow.copied(topic)[0]] == [one + HOUR_MS for one in appended]
