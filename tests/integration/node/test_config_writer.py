"""The leader's records: in transactions where the cluster lets us, plainly and with a warning where it does not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from mm2.core.client_settings import SaslMechanism, SaslSettings, SecurityProtocol
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import BrokerError
from mm2.kafka.transactional_writer import Fenced
from mm2.node.config_writer import ConfigWriter
from tests.integration.guarded.permissions import PASSWORD, USER, add, allowed, binding, denied, take_back
from tests.integration.kafka.clients import connected
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster
from tests.lab.history import read_topic
from tests.lab.listeners import AUTHORIZER, Listener
from tests.lab.waiting import until

SOON = 60.0  # seconds for a broker to hear of a permission
TOPIC = "mm2-configs.A.internal"
ID = "connect-cluster-A-mm2"
LISTENER = Listener(protocol=SecurityProtocol.SASL_PLAINTEXT, mechanisms=(SaslMechanism.PLAIN,))
LOGIN = {
    "security_protocol": SecurityProtocol.SASL_PLAINTEXT,
    "sasl": SaslSettings(mechanism=SaslMechanism.PLAIN, username=USER, password=PASSWORD),
}
MAY_WRITE_ID = binding(AclOperation.WRITE, ID, kind=ResourceType.TRANSACTIONAL_ID)


def offsets(kafka: KafkaCluster, topic: str = TOPIC) -> list[tuple[bytes | None, int]]:
    """Keys, and offsets, which show the markers of transactions between them."""
    (records,) = read_topic(kafka.bootstrap, topic).values()
    return [(one.content[0], one.offset) for one in records]


async def test_a_leader_that_was_replaced_is_refused(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> None:
    topic, own = cluster_b.create_topic(unique("configs")), unique("id")
    async with connected(cluster_b) as cluster:
        old, new = ConfigWriter(cluster, topic, own), ConfigWriter(cluster, topic, own)
        await old.begin()
        await old.put([(b"a", b"1"), (b"b", None)])
        await old.put([])
        await new.begin()
        with pytest.raises(Fenced):
            await old.put([(b"a", b"stale")])
        await new.put([(b"c", b"2")])
        assert old.warning is new.warning is None
    assert [key for key, _ in offsets(cluster_b, topic)] == [b"a", b"b", b"c"]


async def test_what_is_too_large_is_said_in_words(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> None:
    topic = cluster_b.create_topic(unique("configs"))
    async with connected(cluster_b) as cluster:
        writer = ConfigWriter(cluster, topic, unique("id"))
        await writer.begin()
        with pytest.raises(BrokerError, match=f"large, has 2000005 bytes, .*max.message.bytes of {topic}") as caught:
            await writer.put([(b"small", b""), (b"large", bytes(2_000_000))])
        assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
        await writer.put([(b"small", b"")])
    assert [key for key, _ in offsets(cluster_b, topic)] == [b"small"]


async def test_without_permission_it_writes_plainly_and_says_what_to_grant(
    start_cluster: StartCluster, caplog: pytest.LogCaptureFixture
) -> None:
    kafka = start_cluster(listeners=(LISTENER,), users={USER: PASSWORD}, properties=AUTHORIZER)
    kafka.create_topic(TOPIC)
    add(kafka, allowed(AclOperation.ALL, TOPIC))
    async with connected(kafka, LISTENER.label, **LOGIN) as cluster:
        writer = ConfigWriter(cluster, TOPIC, ID)
        await writer.begin()
        for key in (b"a", b"b"):
            await writer.put([(key, b"plain")])
        assert offsets(kafka) == [(b"a", 0), (b"b", 1)], "no markers in between"
        assert writer.warning is not None
        assert "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in writer.warning
        assert f"grant our principal Write and Describe on transactional id {ID}" in writer.warning
        with pytest.raises(BrokerError, match="large, has 2000005 bytes"):
            await writer.put([(b"large", bytes(2_000_000))])

        async def warned_after_put(key: bytes) -> bool:
            await writer.put([(key, b"")])
            return writer.warning is not None

        async def refused_after_put(key: bytes) -> bool:
            try:
                await writer.put([(key, b"")])
            except BrokerError as error:
                return error.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return False

        async def not_warned_after_put(key: bytes) -> bool:
            return not await warned_after_put(key)

        add(kafka, MAY_WRITE_ID)
        await until(partial(not_warned_after_put, b"c"), SOON, "the permission is noticed")
        before = offsets(kafka)[-1][1]
        await writer.put([(b"d", b"transactional")])
        assert offsets(kafka)[-1] == (b"d", before + 2), "a marker in between"

        take_back(kafka, MAY_WRITE_ID)
        await until(partial(warned_after_put, b"e"), SOON, "it goes on without the permission")
        assert offsets(kafka)[-1][0] == b"e"

        add(kafka, denied(AclOperation.WRITE, TOPIC))
        await until(partial(refused_after_put, b"f"), SOON, "what has no remedy here is the caller's to hear")
    warnings = [one for one in caplog.records if one.levelname == "WARNING" and one.name == "mm2.node.config_writer"]
    assert len(warnings) == 2, "one each time it lost the permission"


async def test_a_cluster_without_a_transaction_coordinator(start_cluster: StartCluster) -> None:
    """A single broker with Kafka's default of three copies: consumers and producers work, transactions do not."""
    kafka = start_cluster(properties={"transaction.state.log.replication.factor": "3"})
    kafka.create_topic(TOPIC)
    async with connected(kafka) as cluster:
        writer = ConfigWriter(cluster, TOPIC, ID)
        await writer.begin()
        assert writer.warning is not None
        assert "transaction.state.log.replication.factor" in writer.warning
        await writer.put([(b"a", b"plain")])
    assert offsets(kafka) == [(b"a", 0)]


async def test_a_cluster_that_is_away_is_no_reason_to_write_plainly(start_cluster: StartCluster) -> None:
    kafka = start_cluster()
    kafka.create_topic(TOPIC)
    async with connected(kafka) as cluster:
        writer = ConfigWriter(cluster, TOPIC, ID)
        await writer.begin()
        kafka.broker(1).restart()
        await writer.put([(b"a", b"transactional")])
        await writer.put([(b"b", b"transactional")])
        assert writer.warning is None
    assert offsets(kafka) == [(b"a", 0), (b"b", 2)]
