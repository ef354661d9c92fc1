"""A node under load whose brokers end SASL sessions every few seconds (KIP-368).

Every connection of the node and of its lanes authenticates again in time: nothing waits, and nothing is repeated.
"""

from __future__ import annotations

import pytest

from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.sasl import SaslMechanism
from tests.integration.reauthentication import PARTITIONS, require_no_pause
from tests.integration.security import ALICE, PASSWORD, sasl, two_clusters
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster, unique_name
from tests.lab.listeners import Listener
from tests.lab.node import Node

# tokens that expire under load: test_oauth_node.py; how a connection authenticates again is the same with passwords
pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

SESSION_MS = 3_000
MECHANISM = SaslMechanism.SCRAM_SHA_512


def test_sessions_end_under_load(start_cluster: StartCluster) -> None:
    source, target = (_cluster(start_cluster, name) for name in ("a", "b"))
    topic = source.create_topic(unique_name("orders"), PARTITIONS)
    file = two_clusters(sasl(source, MECHANISM), sasl(target, MECHANISM), topics=topic)
    with Node(file, name="node") as node:
        node.wait_running()
        require_no_pause(node, source, target, topic)
        assert node.stop() == 0


def _cluster(start_cluster: StartCluster, name: str) -> KafkaCluster:
    return start_cluster(
        name,
        listeners=(Listener(protocol=SecurityProtocol.SASL_PLAINTEXT, mechanisms=(MECHANISM,)),),
        users={ALICE: PASSWORD},
        properties={"connections.max.reauth.ms": str(SESSION_MS)},
    )
