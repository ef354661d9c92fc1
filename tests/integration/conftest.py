"""One node for all replication tests that do not need a separate one: starting Spark costs 10 s of CPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.shared_node import OLD_RECORDS, SharedNode
from tests.lab.cluster import KafkaCluster
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.sent_requests import sent_requests


@pytest.fixture(scope="package")
def shared(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> Iterator[SharedNode]:
    """A running node with the flows described at `SharedNode`. Tests must not stop it."""
    plan = SharedNode.plan(cluster_a, cluster_b)
    node = Node(plan, name="shared-node")
    shared = SharedNode(node=node, source=cluster_a, target=cluster_b, properties=plan)
    for flow in (shared.plain, shared.unusual):
        cluster_a.create_topic(flow.old_topic)
        write(cluster_a.bootstrap, flow.old_topic, plain(OLD_RECORDS))
    with node:
        node.wait_running()
        yield shared


@pytest.fixture
def requests() -> Iterator[list[str]]:
    """The types of all requests that this process sends to brokers, in order."""
    with sent_requests() as sent:
        yield sent
