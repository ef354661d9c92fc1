"""Flows that a node runs: heartbeats for all pairs, limited to the targets given by --clusters."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.lab.cluster import KafkaCluster
from tests.lab.node import Node
from tests.lab.settings import ONE_COPY
from tests.lab.waiting import wait_until


# without the option: the banner of test_flow_lifecycle.py shows both directions
@pytest.mark.parametrize("arguments", [pytest.param((), marks=pytest.mark.long), ("--clusters", "{b}")])
def test_clusters_option_limits_the_flows(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str], arguments: tuple[str, ...]
) -> None:
    """No flow is enabled: the node only writes heartbeats and does not start Spark."""
    a, b = unique("A"), unique("B")
    properties = {
        "clusters": f"{a}, {b}",
        f"{a}.bootstrap.servers": cluster_a.bootstrap,
        f"{b}.bootstrap.servers": cluster_b.bootstrap,
        **ONE_COPY,
    }
    wanted = {f"{a}->{b}": "RUNNING"} | ({} if arguments else {f"{b}->{a}": "RUNNING"})
    with Node(properties, arguments=tuple(word.format(b=b) for word in arguments)) as node:
        node.wait_running()
        wait_until(lambda: {one["flow"]: one["state"] for one in node.flows()} == wanted, 30, f"{wanted} in /flows")
        assert not any(one["enabled"] for one in node.flows())
        assert not node.members("engine")
        assert node.stop() == 0
