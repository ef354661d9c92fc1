"""What a node tells while the source of a flow is dead: that the lag is unknown, and what it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from flows.partition.state import END_OFFSET_VALID_S
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import run
from tests.lab.fixtures import unique_name
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.settings import ONE_COPY
from tests.lab.waiting import wait_until

KNOWN = 60.0  # seconds, on a busy machine
UNKNOWN = END_OFFSET_VALID_S + 10.0  # lanes report once a second, and nodes publish once a second


@pytest.mark.long  # tests/integration/flows/test_end_offset_age.py tests the same with a lane, in both kinds of outage
@pytest.mark.timeout(300)
def test_lag_of_a_dead_source_is_unknown(
    breakable: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str]
) -> None:
    topic, a, b = unique("orders"), unique_name("A"), unique_name("B")
    flow = f"{a}->{b}"
    breakable.create_topic(topic, partitions=5)
    write(breakable.bootstrap, topic, plain(100, partitions=5))
    properties = {
        "clusters": f"{a}, {b}",
        f"{a}.bootstrap.servers": breakable.bootstrap,
        f"{b}.bootstrap.servers": cluster_b.bootstrap,
        f"{flow}.enabled": "true",
        f"{flow}.topics": topic,
        "heartbeats.replication.enabled": "false",
        **ONE_COPY,
    }
    with Node(properties, name="silent-source") as node:

        def lag() -> tuple[int | None, dict[str, Any]]:
            outcome = run("mm2", "lag", str(node.file), "--topic", topic, "--json")
            flows = json.loads(outcome.stdout)["flows"] if outcome.stdout else [{}]
            return outcome.code, flows[0]

        def caught_up() -> bool:
            code, shown = lag()
            return (code, shown.get("outlook"), shown.get("partition_count")) == (0, "caught up", 5)

        node.wait_running()
        wait_until(caught_up, KNOWN, "the flow has caught up")
        assert len(samples(node)) == 10, "in records and in seconds"
        breakable.broker(1).kill()
        wait_until(
            lambda: all(one["lag_records"] is None for one in node.topic(flow, topic)["partitions"]),
            UNKNOWN,
            "the lag of all partitions is unknown",
        )
        assert samples(node) == []
        code, shown = lag()
        assert (code, shown["outlook"], shown["lag_records"], shown["caught_up"]) == (1, "unknown", None, 0)
        assert (shown["unknown_partitions"], shown["last_lag_records"]) == (5, 0)
        assert [(one["position"], one["last_end_offset"]) for one in shown["partitions"]] == [(20, 20)] * 5
        assert "lag unknown of 5 partitions; last known: 0 records at 20" in run("mm2", "lag", str(node.file)).stdout
        breakable.broker(1).restart()
        wait_until(caught_up, KNOWN, "it has caught up again")
        assert len(samples(node)) == 10


def samples(node: Node) -> list[str]:
    """Return the samples of lags in the metrics of the node."""
    answer = node.get("/metrics")
    assert answer is not None
    assert answer.status_code == httpx.codes.OK
    return [line for line in answer.text.splitlines() if line.startswith("mm2_source_lag_")]
