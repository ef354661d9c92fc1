"""mm2.max.bytes.per.second of a flow on two nodes: a skewed load, a killed node, and a reload."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import pytest

from tests.integration.shared_node import COPIED
from tests.lab.cluster import KafkaCluster
from tests.lab.node import Node
from tests.lab.records import Outgoing, write
from tests.lab.settings import one_flow
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until

LIMIT = 500_000
MEASURED_S = 30
REDIVIDED_S = 30.0  # seconds for use to be reported and divided, twice
PARTITIONS = 4
VALUE_BYTES = 10_000
HOT_BYTES = LIMIT * 130  # in one partition: about 90 s of it are copied, the rest without a limit


# two starts of Spark and 90 s of copying; in the gate: tests/integration/flows/test_fetch_limit.py measures a lane, and
# tests/unit/node/leader/test_fetch_share_writer.py has the division, owners that change, and what follows
@pytest.mark.long
def test_one_busy_partition_gets_the_limit_also_after_its_node_was_killed(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str]
) -> None:
    a, b = unique("A"), unique("B")
    flow = f"{a}->{b}"
    topic = cluster_a.create_topic(unique(f"{a}-skewed"), PARTITIONS)
    unlimited = one_flow(cluster_a, cluster_b, aliases=(a, b), topics=f"{a}-.*") | {
        "tasks.max": str(PARTITIONS),
        "emit.heartbeats.enabled": "false",
        "heartbeats.replication.enabled": "false",
        f"{b}.session.timeout.ms": "6000",  # the broker's minimum; a killed node is replaced after this time
        f"{b}.heartbeat.interval.ms": "1000",
    }
    properties = unlimited | {f"{flow}.mm2.max.bytes.per.second": str(LIMIT)}
    value = b"." * VALUE_BYTES
    hot = [Outgoing(value=b"%d " % number + value, partition=0) for number in range(HOT_BYTES // VALUE_BYTES)]
    cold = [Outgoing(value=b"%d " % number, partition=1 + number % 3) for number in range(30)]

    with Node(properties, name="first") as first, ExitStack() as later:
        wait_until(lambda: first.flow(flow).get("leader"), 60, "the first node leads")
        second = later.enter_context(Node(properties, name="second"))
        nodes = [first, second]
        for node in nodes:
            node.wait_running()
        wait_until(lambda: all(node.metric("mm2_flow_share_bytes_per_second") for node in nodes), 60, "both copy")
        write(cluster_a.bootstrap, topic, [*hot, *cold])
        assert first.metric("mm2_flow_max_bytes_per_second", source=a, target=b) == LIMIT
        shares_hot(nodes)
        assert 0.9 * LIMIT <= rate(nodes) <= 1.1 * LIMIT
        assert first.flow(flow)["max_bytes_per_second"] == LIMIT
        busy = first.topic(flow, topic)["partitions"][0]
        assert busy["step"] == "LIMITED"

        owner = next(node for node in nodes if node.process.running and owns(node, flow, topic))
        (left,) = (node for node in nodes if node is not owner)
        owner.kill()
        wait_until(lambda: owns(left, flow, topic), 60, "the other node copies the partition")
        shares_hot([left])
        assert 0.9 * LIMIT <= rate([left]) <= 1.1 * LIMIT
        assert left.metric("mm2_flow_share_bytes_per_second") == pytest.approx(LIMIT, rel=0.01), "no share is lost"

        left.rewrite(unlimited)  # without a restart
        remote = (cluster_b.bootstrap, f"{a}.{topic}")
        wait_until_copied((cluster_a.bootstrap, topic), remote, COPIED, repeats_allowed=True)
        assert left.metric("mm2_flow_max_bytes_per_second") == 0
        assert left.flow(flow)["max_bytes_per_second"] is None


def owns(node: Node, flow: str, topic: str) -> bool:
    """Return whether the busy partition is copied by this node, as it says itself."""
    remote = f"{flow.partition('->')[0]}.{topic}"
    return node.metric("mm2_source_lag_records", topic=remote, partition="0") > 0


def copied(nodes: Sequence[Node]) -> float:
    return sum(node.metric("mm2_source_bytes_total") for node in nodes)


def shares_hot(nodes: Sequence[Node]) -> None:
    """Wait until the busy source task has nearly all of the limit."""
    wait_until(
        lambda: max(node.metric("mm2_flow_share_bytes_per_second") for node in nodes) >= 0.95 * LIMIT,
        REDIVIDED_S,
        "the node of the busy partition has nearly all of the limit",
    )


def rate(nodes: Sequence[Node]) -> float:
    """Return the bytes per second that the nodes copy."""
    began, before = time.monotonic(), copied(nodes)
    wait_until(lambda: copied(nodes) >= before + LIMIT * MEASURED_S, 2 * MEASURED_S, "half a minute's worth is copied")
    return (copied(nodes) - before) / (time.monotonic() - began)
