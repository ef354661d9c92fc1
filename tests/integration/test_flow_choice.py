"""Which flows a node runs: all pairs for heartbeats, and only those into the clusters it is told (mm2-compat §1.4)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.lab.cluster import KafkaCluster
from tests.lab.node import Node
from tests.lab.settings import ONE_COPY
from tests.lab.waiting import wait_until


@pytest.mark.parametrize("told", [(), ("--clusters", "{b}")])
def test_flows_are_pairs_into_the_clusters_told(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str], told: tuple[str, ...]
) -> None:
    """Nothing is enabled: the node beats, and starts no Spark."""
    a, b = unique("A"), unique("B")
    properties = {
        "clusters": f"{a}, {b}",
        f"{a}.bootstrap.servers": cluster_a.bootstrap,
        f"{b}.bootstrap.servers": cluster_b.bootstrap,
        **ONE_COPY,
    }
    wanted = {f"{a}->{b}": "RUNNING"} | ({} if told else {f"{b}->{a}": "RUNNING"})
    with Node(properties, arguments=tuple(word.format(b=b) for word in told)) as node:
        node.wait_running()
        wait_until(lambda: {one["flow"]: one["state"] for one in node.flows()} == wanted, 30, f"{wanted} in /flows")
        assert not any(one["enabled"] for one in node.flows())
        assert not node.members("engine")
        assert node.stop() == 0
