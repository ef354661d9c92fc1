"""A separate cluster for tests of the client library: results about all topics must not depend on other tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.sasl import SaslMechanism
from tests.lab.cluster import KafkaCluster
from tests.lab.listeners import AUTHORIZER, Listener

TOPICS = (
    "heartbeats",
    "A.heartbeats",
    "A.C.heartbeats",
    "A.orders",
    "A.C.orders",
    "orders",
    "A.checkpoints.internal",
    "mm2-offsets.A.internal",
)


@pytest.fixture(scope="package")
def kafka() -> Iterator[KafkaCluster]:
    """Cluster B of a chain C->A->B, with the topics of a MirrorMaker. Its SASL_SSL listener requires ACLs."""
    login = Listener(protocol=SecurityProtocol.SASL_SSL, mechanisms=(SaslMechanism.PLAIN,))
    users = {"reader": "pw-reader", "lister": "pw-lister"}
    with KafkaCluster("client", listeners=(login,), users=users, properties=AUTHORIZER) as cluster:
        for topic in TOPICS:
            cluster.create_topic(topic)
        yield cluster


@pytest.fixture
def properties(kafka: KafkaCluster) -> dict[str, str]:
    """Client properties for the cluster."""
    return {"bootstrap.servers": kafka.bootstrap}
