"""One node for the tests of queries: starting Spark with a SQL session costs 15 s of CPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.integration.queries.queried_flow import QueriedFlow
from tests.lab.cluster import KafkaCluster
from tests.lab.node import Node


@dataclass(frozen=True, slots=True)
class Queried:
    """The flow and its node."""

    flow: QueriedFlow
    node: Node


@pytest.fixture(scope="package")
def queried(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> Iterator[Queried]:
    """A running node. Tests must not stop it."""
    flow = QueriedFlow.plan(cluster_a, cluster_b)
    with Node(flow.properties(), name="queries") as node:
        node.wait_running()
        yield Queried(flow, node)
