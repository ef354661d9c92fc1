"""One node for the tests of queries: starting Spark with a SQL session costs 15 s of CPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from tests.integration.queries.queried_flow import QueriedFlow
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.node import Node


@dataclass(frozen=True, slots=True)
class Queried:
    """The flow and its node, which has another one with errors.tolerance = all and the query of ``numbers``."""

    flow: QueriedFlow
    tolerant: QueriedFlow
    node: Node


@pytest.fixture(scope="package")
def queried(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> Iterator[Queried]:
    """A running node. Tests must not stop it."""
    flow = QueriedFlow.plan(cluster_a, cluster_b)
    tolerant = replace(flow, a=unique_name("C"))
    both = {
        **tolerant.properties("numbers"),
        **flow.properties(),
        "clusters": f"{flow.a}, {tolerant.a}, {flow.b}",
        f"{tolerant.name}.errors.tolerance": "all",
        f"{flow.name}.mm2.sql.numbers.dead.letters": "full",
    }
    with Node(both, name="queries") as node:
        node.wait_running()
        yield Queried(flow, tolerant, node)
