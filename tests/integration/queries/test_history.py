"""From which source offset which query applied, over changes of the file and restarts of the node."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.queries.queried_flow import QUERIES, SEEN, QueriedFlow
from tests.lab.cluster import KafkaCluster
from tests.lab.node import Node
from tests.lab.records import Outgoing
from tests.lab.waiting import wait_until

COUNT = 100


def numbered(first: int) -> list[Outgoing]:
    return [Outgoing(value=b"%d" % number) for number in range(first, first + COUNT)]


def recorded(flow: QueriedFlow, node: Node, topic: str) -> list[tuple[int, str | None]]:
    """Return offset and query of each entry of the topic's only partition."""
    answer = node.get(f"/flows/{flow.a}/{flow.b}/queries?topic={topic}")
    if answer is None or answer.status_code != 200:
        return []
    partitions: list[dict[str, Any]] = answer.json()["partitions"]
    assert [one["topic"] for one in partitions] in ([], [topic])
    return [(one["offset"], one["query"]) for partition in partitions for one in partition["queries"]]


def wait_recorded(flow: QueriedFlow, node: Node, topic: str, expected: list[tuple[int, str | None]]) -> None:
    wait_until(lambda: recorded(flow, node, topic) == expected, SEEN, f"the history of {topic} is {expected}")


@pytest.mark.long  # tests/integration/node/test_query_history.py
def test_history_over_changed_queries_and_a_restart(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    flow = QueriedFlow.plan(cluster_a, cluster_b)
    topic, plain = flow.create("live"), flow.create("plain")
    with Node(flow.properties("live"), name="history") as node:
        node.wait_running()
        flow.write(topic, numbered(0))
        flow.write(plain, numbered(0))
        flow.wait_passed(node, topic)
        flow.wait_passed(node, plain)
        entries: list[tuple[int, str | None]] = [(0, QUERIES["live"])]
        wait_recorded(flow, node, topic, entries)
        key = f"{flow.name}.mm2.sql.live.query"
        changed = "SELECT upper(CAST(value AS STRING)) AS value FROM records"
        node.rewrite(flow.properties("live", **{key: changed}))
        entries.append((COUNT, changed))
        wait_recorded(flow, node, topic, entries)
        flow.write(topic, numbered(COUNT))
        flow.wait_passed(node, topic)
        node.rewrite(flow.properties("never"))
        entries.append((2 * COUNT, None))
        wait_recorded(flow, node, topic, entries)
        node.kill()
        node.start()
        node.wait_running()
        wait_recorded(flow, node, topic, entries)
        assert recorded(flow, node, plain) == []
