"""Two clusters with an authorizer, and a node with few permissions on the target and a custom admin class."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.sasl import SaslMechanism
from tests.integration.guarded.permissions import PASSWORD, REMOTE, USER, add, allowed, binding, wait_for_reason
from tests.integration.guarded.recording_admin import CLASS, RECORD_KEY, Recorded
from tests.lab import scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import ROOT
from tests.lab.listeners import AUTHORIZER, Listener
from tests.lab.node import Node
from tests.lab.settings import one_flow

LISTENER = Listener(protocol=SecurityProtocol.SASL_PLAINTEXT, mechanisms=(SaslMechanism.PLAIN,))


@pytest.fixture(scope="package")
def target() -> Iterator[KafkaCluster]:
    with KafkaCluster("guarded", listeners=(LISTENER,), users={USER: PASSWORD}, properties=AUTHORIZER) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def source() -> Iterator[KafkaCluster]:
    """The source cluster; the node is a super user there."""
    with KafkaCluster("guarded-source", properties=AUTHORIZER) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def recorded() -> Recorded:
    """The calls of the node's admin."""
    return Recorded(scratch.directory("recording-admin") / "calls.jsonl")


@pytest.fixture(scope="package")
def node(source: KafkaCluster, target: KafkaCluster, recorded: Recorded) -> Iterator[Node]:
    """A node started without permissions. They are granted one by one; each time the missing one is reported."""
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{USER}" password="{PASSWORD}";'
    properties = one_flow(source, target, topics="orders-.*") | {
        "B.bootstrap.servers": target.bootstrap_of(LISTENER.label),
        "B.security.protocol": "SASL_PLAINTEXT",
        "B.sasl.mechanism": "PLAIN",
        "B.sasl.jaas.config": login,
        "A->B.forwarding.admin.class": CLASS,
        f"A->B.{RECORD_KEY}": str(recorded.file),
        "sync.topic.configs.interval.seconds": "1",
        "sync.topic.acls.interval.seconds": "1",
        "mm2.rest.admin": "true",
        "mm2.rest.admin.token": "guarded-commands",
    }
    with Node(properties, name="guarded-node", env={"PYTHONPATH": str(ROOT)}) as node:
        node.wait_answering()
        wait_for_reason(node, "mm2-offsets.A.internal", "TOPIC_AUTHORIZATION_FAILED")
        internal = [allowed(AclOperation.ALL, "mm2-", prefix=True), allowed(AclOperation.ALL, "heartbeats")]
        add(target, *internal, allowed(AclOperation.ALL, "A.checkpoints.internal"))
        wait_for_reason(node, "requires READ on group A-mm2 of cluster B")
        add(target, binding(AclOperation.READ, "A-mm2", kind=ResourceType.GROUP))
        add(target, *(allowed(operation, "A.", prefix=True) for operation in REMOTE))
        node.wait_running()
        yield node
