"""Records that a query drops count as copied: lag, stored offsets, groups and restarts."""

from __future__ import annotations

import json
from bisect import bisect_left

import pytest

from tests.integration.queries.conftest import Queried
from tests.integration.queries.queried_flow import SEEN, QueriedFlow
from tests.lab.cluster import KafkaCluster
from tests.lab.groups import commit, committed
from tests.lab.history import read_topic
from tests.lab.node import Node
from tests.lab.records import Outgoing, plain
from tests.lab.waiting import wait_until

COUNT = 5_000


def stored(flow: QueriedFlow, topic: str) -> int | None:
    """Return the last stored source offset of partition 0."""
    offsets = [
        json.loads(record.value or b"")["offset"]
        for records in read_topic(
            flow.target.bootstrap, f"mm2-offsets.{flow.a}.internal", isolation="read_committed"
        ).values()
        for record in records
        if json.loads(record.key or b"")[1]["topic"] == topic
    ]
    return offsets[-1] if offsets else None


def numbered(first: int, count: int) -> list[Outgoing]:
    return [Outgoing(value=b"%d" % number) for number in range(first, first + count)]


def test_a_query_that_drops_99_percent(queried: Queried) -> None:
    flow, node = queried.flow, queried.node
    topic = flow.create("rare")
    flow.write(topic, numbered(0, COUNT))
    flow.wait_passed(node, topic)
    survivors = [number for number in range(COUNT) if number % 100 == 7]
    assert [int(record.value or b"") for record in flow.copied(topic)[0]] == survivors

    places = (0, 7, 8, 2_500, survivors[-1], survivors[-1] + 1, COUNT)
    for place in places:
        commit(flow.source, f"{topic}-group-{place}", {(topic, 0): place})
    for place in places:
        expected = {(flow.remote(topic), 0): bisect_left(survivors, place)}
        group = f"{topic}-group-{place}"
        wait_until(lambda: committed(flow.target, group) == expected, SEEN, f"{group} is at {expected}")  # noqa: B023

    wait_until(lambda: (stored(flow, topic) or 0) >= survivors[-1], SEEN, "the source offset is stored")
    labels = {"source": flow.a, "target": flow.b, "topic": flow.remote(topic)}
    assert node.metric("mm2_source_lag_records", **labels) == 0
    assert node.metric("mm2_source_records_total", **labels) == len(survivors)


def test_a_query_that_drops_everything(queried: Queried) -> None:
    flow, node = queried.flow, queried.node
    topic = flow.create("never")
    flow.write(topic, plain(COUNT))
    flow.wait_passed(node, topic)
    assert flow.copied(topic)[0] == []
    wait_until(lambda: stored(flow, topic) == COUNT - 1, SEEN, "the offset of the last dropped record is stored")


@pytest.mark.long  # what is stored: the test above; restarts: test_flow_offsets.py
@pytest.mark.parametrize("mode", ["at-least-once", "exactly-once"])
def test_a_restart_continues_behind_what_was_dropped(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, mode: str
) -> None:
    flow = QueriedFlow.plan(cluster_a, cluster_b)
    exactly_once = {f"{flow.b}.exactly.once.source.support": "enabled"} if mode == "exactly-once" else {}
    topics = [flow.create(stem) for stem in ("rare", "never")]
    for first in (0, COUNT):
        for topic in topics:
            flow.write(topic, numbered(first, COUNT))
        with Node(flow.properties("rare", "never", **exactly_once), name=mode) as node:
            for topic in topics:
                flow.wait_passed(node, topic)
            assert node.stop() == 0
        assert stored(flow, topics[1]) == first + COUNT - 1
    survivors = [number for number in range(2 * COUNT) if number % 100 == 7]
    assert [int(record.value or b"") for record in flow.copied(topics[0])[0]] == survivors
    assert flow.copied(topics[1])[0] == []
