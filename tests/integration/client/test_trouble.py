"""Errors of the client library: authentication, authorization and unavailable brokers."""

from __future__ import annotations

import asyncio
import time

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from mm2.client import (
    AsyncMirrorClient,
    AuthenticationRefused,
    BrokerError,
    ClusterError,
    ConfigInvalid,
    MirrorClient,
    TlsRefused,
    Unreachable,
    remote_cluster,
)
from mm2.kafka.errors import RequestTimedOut
from tests.lab.checkpoints import Checkpoint, write_checkpoints
from tests.lab.cluster import ADMIN_TIMEOUT, KafkaCluster
from tests.lab.freezing import freeze, thaw
from tests.lab.ports import HOST
from tests.lab.positions import positions
from tests.lab.waiting import require_within

WAIT = 30.0  # seconds; immediate errors are raised long before
IMMEDIATE = 10.0  # seconds, on busy cores
ATTEMPTS = 1.0  # seconds: a refused connection takes a millisecond, and one attempt has to end on busy cores
WRITTEN = Checkpoint(group="readers", topic="S.orders", partition=0, upstream=3, downstream=4)
TOPIC = "S.checkpoints.internal"
LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="{}" password="{}";'


def secured(kafka: KafkaCluster, user: str, password: str | None = None) -> dict[str, str]:
    return {
        "bootstrap.servers": kafka.bootstrap_of("SASL_SSL"),
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": LOGIN.format(user, password or f"pw-{user}"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": kafka.authority.ca_pem,
    }


@pytest.fixture(scope="module")
def permitted(kafka: KafkaCluster) -> KafkaCluster:
    """User ``lister`` can describe all topics, user ``reader`` can read the checkpoints of S."""
    allow = AclPermissionType.ALLOW
    rules = [
        ("*", "User:lister", AclOperation.DESCRIBE),
        (TOPIC, "User:reader", AclOperation.READ),
    ]
    bindings = [
        AclBinding(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, user, "*", operation, allow)
        for topic, user, operation in rules
    ]
    for future in kafka.admin.create_acls(bindings).values():
        future.result(ADMIN_TIMEOUT)
    kafka.create_topic(TOPIC)
    write_checkpoints(kafka, TOPIC, [WRITTEN])
    return kafka


def test_user_with_permission(permitted: KafkaCluster) -> None:
    with MirrorClient(secured(permitted, "reader")) as client:
        assert client.remote_consumer_offsets("readers", "S", WAIT) == positions(WRITTEN)
        assert client.checkpoint_topics() == {TOPIC}, "this user sees no other topics"


def test_separate_users_per_client(permitted: KafkaCluster) -> None:
    lister, reader = secured(permitted, "lister"), secured(permitted, "reader")
    with MirrorClient(lister | {"consumer.sasl.jaas.config": reader["sasl.jaas.config"]}) as client:
        assert client.replication_hops("C") == 2
        assert client.remote_consumer_offsets("readers", "S", WAIT) == positions(WRITTEN)


@pytest.mark.parametrize("user", ["lister", "reader"])
def test_user_without_permission(permitted: KafkaCluster, user: str) -> None:
    """The first user can describe the topic but not read it; the second cannot describe it."""
    alias = {"lister": "S", "reader": "A"}[user]
    began = time.monotonic()
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED") as caught:
        remote_cluster.translate_offsets(secured(permitted, user), alias, "readers", WAIT)
    assert f"{alias}.checkpoints.internal" in str(caught.value)
    require_within(time.monotonic() - began, IMMEDIATE, "the missing permission is reported")


def test_wrong_password_raises_immediately(kafka: KafkaCluster) -> None:
    began = time.monotonic()
    with pytest.raises(AuthenticationRefused, match="authentication of user reader failed"):
        remote_cluster.heartbeat_topics(secured(kafka, "reader", "wrong"))
    require_within(time.monotonic() - began, IMMEDIATE, "the wrong password is reported")


def test_tls_failure_raises_immediately(kafka: KafkaCluster) -> None:
    plain = {"bootstrap.servers": kafka.bootstrap_of("SASL_SSL")}
    with pytest.raises(TlsRefused, match=r"check security\.protocol"):
        remote_cluster.heartbeat_topics(plain)
    trusting_others = secured(kafka, "reader") | {"ssl.truststore.certificates": KafkaCluster().authority.ca_pem}
    with pytest.raises(TlsRefused, match="certificate is not trusted"):
        remote_cluster.translate_offsets(trusting_others, "S", "readers", WAIT)


def test_invalid_certificate(kafka: KafkaCluster) -> None:
    broken = "-----BEGIN CERTIFICATE-----\nbm90aGluZw==\n-----END CERTIFICATE-----"
    with pytest.raises(ConfigInvalid, match=r"ssl\.truststore\.certificates = \[hidden\]"):
        MirrorClient(secured(kafka, "reader") | {"ssl.truststore.certificates": broken})


def test_unreachable_cluster(kafka: KafkaCluster) -> None:
    """The client retries until the timeout; the error contains the last failure."""
    nobody = {"bootstrap.servers": f"{HOST}:1"}
    with MirrorClient(nobody) as client:
        for question in (
            lambda: client.heartbeat_topics(timeout=ATTEMPTS),
            lambda: client.remote_consumer_offsets("readers", "A", ATTEMPTS),
        ):
            began = time.monotonic()
            with pytest.raises(Unreachable, match="connection refused"):
                question()
            took = time.monotonic() - began
            assert took >= ATTEMPTS
            require_within(took, IMMEDIATE, "the client gives up")


async def test_hung_broker_that_recovers(kafka: KafkaCluster) -> None:
    async with AsyncMirrorClient({"bootstrap.servers": kafka.bootstrap}) as client:
        expected = await client.heartbeat_topics()
        freeze(kafka.broker(1).process)
        try:
            with pytest.raises(RequestTimedOut, match=r"no response within 0\.5 s"):
                await client.heartbeat_topics(timeout=0.5)
            with pytest.raises(ClusterError):
                await client.remote_consumer_offsets("readers", "S", 0.5)
        finally:
            thaw(kafka.broker(1).process)
        assert await client.heartbeat_topics(timeout=WAIT) == expected


async def test_cancelled_call_does_not_affect_the_next(kafka: KafkaCluster) -> None:
    async with AsyncMirrorClient({"bootstrap.servers": kafka.bootstrap}) as client:
        expected = await client.heartbeat_topics()
        for _ in range(20):
            asking = asyncio.create_task(client.remote_topics())
            await asyncio.sleep(0)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        assert await client.heartbeat_topics() == expected


def test_restarted_broker(kafka: KafkaCluster) -> None:
    with MirrorClient({"bootstrap.servers": kafka.bootstrap}) as client:
        expected = client.heartbeat_topics()
        kafka.broker(1).stop()
        kafka.broker(1).restart()
        assert client.heartbeat_topics() == expected
