"""Access to a cluster is withdrawn under load and given back: the flow says what is missing, and loses nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.sasl import SaslMechanism
from tests.faults.mode import OURS, Mode
from tests.integration.guarded.permissions import PASSWORD, USER, add, allowed, binding, denied, remove
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.listeners import AUTHORIZER, Listener
from tests.lab.load import Load
from tests.lab.node import Node
from tests.lab.settings import one_flow
from tests.lab.verify import Verdict, wait_until_copied
from tests.lab.waiting import wait_until

NOTICED = 60.0
COPIED = 90.0  # a partition that failed is tried again every 30 seconds
LOGIN = Listener(protocol=SecurityProtocol.SASL_PLAINTEXT, mechanisms=(SaslMechanism.PLAIN,))
ENCRYPTED = Listener(protocol=SecurityProtocol.SSL)
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{USER}" password="{PASSWORD}";'

pytestmark = [pytest.mark.long, pytest.mark.parametrize("mode", OURS, ids=str)]


@pytest.mark.parametrize(
    ("alias", "operation"),
    [
        pytest.param("A", AclOperation.READ, marks=pytest.mark.fault_row("source ACL revoked")),
        pytest.param("B", AclOperation.WRITE, marks=pytest.mark.fault_row("target ACL revoked")),
    ],
)
def test_acl_is_revoked_and_granted_again(
    cluster_a: KafkaCluster, alias: str, operation: AclOperation, mode: Mode, record_row: Callable[[Verdict], None]
) -> None:
    with KafkaCluster("guarded", listeners=(LOGIN,), users={USER: PASSWORD}, properties=AUTHORIZER) as guarded:
        everything = [
            allowed(AclOperation.ALL, "*"),
            binding(AclOperation.ALL, "*", kind=ResourceType.GROUP),
            binding(AclOperation.ALL, "*", kind=ResourceType.TRANSACTIONAL_ID),
            binding(AclOperation.ALL, "kafka-cluster", kind=ResourceType.BROKER),
        ]
        add(guarded, *everything)
        source, target = (guarded, cluster_a) if alias == "A" else (cluster_a, guarded)
        topic = source.create_topic(unique_name(f"revoked-{alias.lower()}"), 3)
        security = {
            f"{alias}.bootstrap.servers": guarded.bootstrap_of(LOGIN.label),
            f"{alias}.security.protocol": "SASL_PLAINTEXT",
            f"{alias}.sasl.mechanism": "PLAIN",
            f"{alias}.sasl.jaas.config": JAAS,
        }
        with (
            Node(one_flow(source, target, topics=topic) | security | mode.properties()) as node,
            Load(source, topic, partitions=3, per_second=1_000) as load,
        ):
            node.wait_running()
            load.wait_for_more(2_000)
            forbidden = denied(operation, topic if alias == "A" else f"A.{topic}")
            add(guarded, forbidden)
            wait_until(lambda: "TOPIC_AUTHORIZATION_FAILED" in str(node.health()), NOTICED, "/health names the error")
            load.wait_for_more(2_000)
            remove(guarded, forbidden)
            wait_until(lambda: node.healthy, COPIED, "the flow is healthy again")
            load.wait_for_more(2_000)
            load.stop()
            remote, repeats = (target.bootstrap, f"A.{topic}"), mode.repeats_allowed
            record_row(wait_until_copied((source.bootstrap, topic), remote, COPIED, repeats_allowed=repeats))


@pytest.mark.fault_row("certificate expired")
def test_certificate_expires_and_is_renewed(
    cluster_a: KafkaCluster, mode: Mode, record_row: Callable[[Verdict], None]
) -> None:
    with KafkaCluster("encrypted", listeners=(ENCRYPTED,)) as source:
        broker = source.broker(1)
        topic = source.create_topic(unique_name("renewed"), 3)
        trusted = source.authority.write_server_pems(broker.directory).truststore
        security = {
            "A.bootstrap.servers": source.bootstrap_of(ENCRYPTED.label),
            "A.security.protocol": "SSL",
            "A.ssl.truststore.type": "PEM",
            "A.ssl.truststore.location": str(trusted),
        }
        with (
            Node(one_flow(source, cluster_a, topics=topic) | security | mode.properties()) as node,
            Load(source, topic, partitions=3, per_second=1_000) as load,
        ):
            node.wait_running()
            load.wait_for_more(2_000)
            source.authority.write_server_pems(broker.directory, expires=datetime.now(UTC) - timedelta(days=1))
            broker.restart()
            wait_until(lambda: "certificate has expired" in str(node.health()), NOTICED, "/health names the reason")
            assert node.process.running
            load.wait_for_more(2_000)
            source.authority.write_server_pems(broker.directory)
            broker.restart()
            wait_until(lambda: node.healthy, COPIED, "the flow is healthy again")
            load.wait_for_more(2_000)
            load.stop()
            remote, repeats = (cluster_a.bootstrap, f"A.{topic}"), mode.repeats_allowed
            record_row(wait_until_copied((source.bootstrap, topic), remote, COPIED, repeats_allowed=repeats))
