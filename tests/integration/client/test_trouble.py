"""Passwords, permissions, brokers that are not there: what is raised, and when."""

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
    MirrorClient,
    TlsRefused,
    Unreachable,
    remote_cluster,
)
from mm2.kafka.errors import RequestTimedOut, SecuritySettingsInvalid
from tests.integration.kafka.clients import freeze, thaw
from tests.lab.checkpoints import Checkpoint, write_checkpoints
from tests.lab.cluster import ADMIN_TIMEOUT, KafkaCluster
from tests.lab.ports import HOST
from tests.lab.positions import positions

WAIT = 30.0  # seconds; what is raised at once is raised long before
AT_ONCE = 10.0  # seconds, on busy cores
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
    """``lister`` may describe all topics, ``reader`` read the checkpoints of S."""
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


def test_a_user_with_permission(permitted: KafkaCluster) -> None:
    with MirrorClient(secured(permitted, "reader")) as client:
        assert client.remote_consumer_offsets("readers", "S", WAIT) == positions(WRITTEN)
        assert client.checkpoint_topics() == {TOPIC}, "others are not shown to this user"


def test_two_users_one_for_each_client(permitted: KafkaCluster) -> None:
    lister, reader = secured(permitted, "lister"), secured(permitted, "reader")
    with MirrorClient(lister | {"consumer.sasl.jaas.config": reader["sasl.jaas.config"]}) as client:
        assert client.replication_hops("C") == 2
        assert client.remote_consumer_offsets("readers", "S", WAIT) == positions(WRITTEN)


@pytest.mark.parametrize("user", ["lister", "reader"])
def test_a_user_without_permission(permitted: KafkaCluster, user: str) -> None:
    """The first may see the topic and not read it, the second is not shown that it exists."""
    alias = {"lister": "S", "reader": "A"}[user]
    begun = time.monotonic()
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED") as caught:
        remote_cluster.translate_offsets(secured(permitted, user), alias, "readers", WAIT)
    assert f"{alias}.checkpoints.internal" in str(caught.value)
    assert time.monotonic() - begun < AT_ONCE


def test_a_wrong_password_is_told_at_once(kafka: KafkaCluster) -> None:
    begun = time.monotonic()
    with pytest.raises(AuthenticationRefused, match="user reader refused"):
        remote_cluster.heartbeat_topics(secured(kafka, "reader", "wrong"))
    assert time.monotonic() - begun < AT_ONCE


def test_tls_that_does_not_fit_is_told_at_once(kafka: KafkaCluster) -> None:
    plain = {"bootstrap.servers": kafka.bootstrap_of("SASL_SSL")}
    with pytest.raises(TlsRefused, match=r"check security\.protocol"):
        remote_cluster.heartbeat_topics(plain)
    trusting_others = secured(kafka, "reader") | {"ssl.truststore.certificates": KafkaCluster().authority.ca_pem}
    with pytest.raises(TlsRefused, match="certificate is not trusted"):
        remote_cluster.translate_offsets(trusting_others, "S", "readers", WAIT)


def test_a_certificate_that_is_none(kafka: KafkaCluster) -> None:
    broken = "-----BEGIN CERTIFICATE-----\nbm90aGluZw==\n-----END CERTIFICATE-----"
    with pytest.raises(SecuritySettingsInvalid):
        MirrorClient(secured(kafka, "reader") | {"ssl.truststore.certificates": broken})


def test_nobody_there(kafka: KafkaCluster) -> None:
    """Waited for until the time is up; the sentence says what was tried last."""
    nobody = {"bootstrap.servers": f"{HOST}:1"}
    with MirrorClient(nobody) as client:
        for question in (
            lambda: client.heartbeat_topics(timeout=0.3),
            lambda: client.remote_consumer_offsets("readers", "A", 0.3),
        ):
            begun = time.monotonic()
            with pytest.raises(Unreachable, match="nothing listens there"):
                question()
            assert 0.3 <= time.monotonic() - begun < AT_ONCE


async def test_a_broker_that_hangs_and_comes_back(kafka: KafkaCluster) -> None:
    async with AsyncMirrorClient({"bootstrap.servers": kafka.bootstrap}) as client:
        expected = await client.heartbeat_topics()
        freeze(kafka.broker(1))
        try:
            with pytest.raises(RequestTimedOut, match=r"no answer within 0\.5 s"):
                await client.heartbeat_topics(timeout=0.5)
            with pytest.raises(ClusterError):
                await client.remote_consumer_offsets("readers", "S", 0.5)
        finally:
            thaw(kafka.broker(1))
        assert await client.heartbeat_topics(timeout=WAIT) == expected


async def test_a_question_that_is_given_up_does_not_hurt_the_next(kafka: KafkaCluster) -> None:
    async with AsyncMirrorClient({"bootstrap.servers": kafka.bootstrap}) as client:
        expected = await client.heartbeat_topics()
        for _ in range(20):
            asking = asyncio.create_task(client.remote_topics())
            await asyncio.sleep(0)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        assert await client.heartbeat_topics() == expected


def test_a_broker_that_starts_anew(kafka: KafkaCluster) -> None:
    with MirrorClient({"bootstrap.servers": kafka.bootstrap}) as client:
        expected = client.heartbeat_topics()
        kafka.broker(1).stop()
        kafka.broker(1).restart()
        assert client.heartbeat_topics() == expected
