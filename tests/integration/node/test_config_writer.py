"""Records of the leader: written in transactions, or without them and with a warning where that is not possible."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from mm2.core.naming.names import TopicPartition
from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.sasl import PasswordLogin, SaslMechanism
from mm2.kafka.errors import BrokerError
from mm2.kafka.logs.transaction_coordinator import Fenced
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.node.leader.config_writer import ConfigWriter
from mm2.node.store.config_store import ConfigStore
from tests.integration.guarded.permissions import PASSWORD, USER, add, allowed, binding, denied, remove
from tests.integration.kafka.clients import connected
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster
from tests.lab.history import read_topic
from tests.lab.listeners import AUTHORIZER, Listener
from tests.lab.sent_requests import sent_by_connection
from tests.lab.waiting import until
from tests.unit.config import files

SOON = 60.0  # seconds until a permission is in effect on a broker
TOPIC = "mm2-configs.A.internal"
ID = "connect-cluster-A-mm2"
IMPATIENT_MS = 2_000  # to wait for a coordinator that does not exist
LISTENER = Listener(protocol=SecurityProtocol.SASL_PLAINTEXT, mechanisms=(SaslMechanism.PLAIN,))
LOGIN = {
    "security_protocol": SecurityProtocol.SASL_PLAINTEXT,
    "sasl": PasswordLogin(mechanism=SaslMechanism.PLAIN, username=USER, password=PASSWORD),
}
MAY_WRITE_ID = binding(AclOperation.WRITE, ID, kind=ResourceType.TRANSACTIONAL_ID)


def offsets(kafka: KafkaCluster, topic: str = TOPIC) -> list[tuple[bytes | None, int]]:
    """Return keys and offsets of all records; gaps between offsets are transaction markers."""
    (records,) = read_topic(kafka.bootstrap, topic).values()
    return [(one.content[0], one.offset) for one in records]


async def test_replaced_leader_is_fenced(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> None:
    topic, own = cluster_b.create_topic(unique("configs")), unique("id")
    starts = TopicPartition(cluster_b.create_topic(unique("offsets"), 2), 1)
    async with connected(cluster_b) as cluster:
        old, new = ConfigWriter(cluster, topic, own), ConfigWriter(cluster, topic, own)
        await old.begin()
        await old.put([(b"a", b"1"), (b"b", None)])
        await old.put([])
        await old.put([(b"d", b"1")], starts)
        await new.begin()
        with pytest.raises(Fenced):
            await old.put([(b"a", b"stale")])
        with pytest.raises(Fenced):
            await old.put([(b"d", b"stale")], starts)
        await new.put([(b"c", b"2")])
        assert old.warning is new.warning is None
    assert [key for key, _ in offsets(cluster_b, topic)] == [b"a", b"b", b"c"]
    found = read_topic(cluster_b.bootstrap, starts.topic).values()
    assert [(one.partition, one.value) for records in found for one in records] == [(starts.partition, b"1")]


async def test_writes_do_not_wait_for_the_long_polls_of_the_reader(
    cluster_b: KafkaCluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """In one session of a flow, both use the same client."""
    topic = cluster_b.create_topic(unique("configs"))
    settings = files.flow(tmp_path, f"B.config.storage.topic = {topic}\n")
    with sent_by_connection() as sent:
        async with connected(cluster_b) as cluster:
            store = ConfigStore(settings, cluster, on_change=lambda: None, on_command=lambda _: None)
            await store.read_to_end()
            writer = ConfigWriter(cluster, store.topic, unique("id"))
            await writer.begin()
            following = asyncio.create_task(store.follow())
            try:
                await writer.put([(b"a", b"1")])
                await store.catch_up()
            finally:
                following.cancel()
                await asyncio.wait([following])
    kinds = [kinds for kinds in sent.values() if kinds & {"FetchRequest", "ProduceRequest", "EndTxn"}]
    assert len(kinds) > 1
    assert not [one for one in kinds if "FetchRequest" in one and len(one) > 1], "a reader's connection only reads"


async def test_too_large_record_is_reported(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> None:
    topic = cluster_b.create_topic(unique("configs"))
    async with connected(cluster_b) as cluster:
        writer = ConfigWriter(cluster, topic, unique("id"))
        await writer.begin()
        with pytest.raises(BrokerError, match=f"large, has 2000005 bytes, .*max.message.bytes of {topic}") as caught:
            await writer.put([(b"small", b""), (b"large", bytes(2_000_000))])
        assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
        await writer.put([(b"small", b"")])
    assert [key for key, _ in offsets(cluster_b, topic)] == [b"small"]


async def test_without_permission_it_writes_without_transactions_and_warns(
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
        assert offsets(kafka) == [(b"a", 0), (b"b", 1)], "there are no transaction markers between them"
        assert writer.warning is not None
        assert "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in writer.warning
        assert f"grant the node's principal WRITE on transactional id {ID}" in writer.warning
        with pytest.raises(BrokerError, match="large, has 2000005 bytes"):
            await writer.put([(b"large", bytes(2_000_000))])

        async def warned_after_put(key: bytes) -> bool:
            await writer.put([(key, b"")])
            return writer.warning is not None

        async def rejected_after_put(key: bytes) -> bool:
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
        assert offsets(kafka)[-1] == (b"d", before + 2), "there is a transaction marker before the record"

        remove(kafka, MAY_WRITE_ID)
        await until(partial(warned_after_put, b"e"), SOON, "it continues without the permission")
        assert offsets(kafka)[-1][0] == b"e"

        add(kafka, denied(AclOperation.WRITE, TOPIC))
        await until(partial(rejected_after_put, b"f"), SOON, "errors without a fallback are raised to the caller")
    warnings = [
        one for one in caplog.records if one.levelname == "WARNING" and one.name == "mm2.node.leader.config_writer"
    ]
    assert len(warnings) == 2, "one warning each time the permission was missing"


async def test_cluster_without_transaction_coordinator(
    without_coordinator: KafkaCluster, unique: Callable[[str], str]
) -> None:
    """With a single broker and Kafka's default replication factor of 3, clients work but transactions do not."""
    kafka, topic = without_coordinator, without_coordinator.create_topic(unique("configs"))
    async with connected(kafka) as cluster:
        writer = ConfigWriter(cluster, topic, ID, no_coordinator_ms=IMPATIENT_MS)
        await writer.begin()
        assert writer.warning is not None
        assert "transaction.state.log.replication.factor" in writer.warning
        await writer.put([(b"a", b"plain")])
    assert offsets(kafka, topic) == [(b"a", 0)]


async def test_broker_restart_does_not_disable_transactions(
    breakable: KafkaCluster, unique: Callable[[str], str]
) -> None:
    kafka, topic = breakable, breakable.create_topic(unique("configs"))
    async with connected(kafka) as cluster:
        writer = ConfigWriter(cluster, topic, unique("id"))
        await writer.begin()
        kafka.broker(1).restart()
        await writer.put([(b"a", b"transactional")])
        await writer.put([(b"b", b"transactional")])
        assert writer.warning is None
    assert offsets(kafka, topic) == [(b"a", 0), (b"b", 2)]
