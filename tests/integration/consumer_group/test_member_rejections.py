"""Members that the coordinator rejects, and static members (KIP-345)."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.sasl import PasswordLogin, SaslMechanism
from mm2.kafka.groups.member_errors import MembershipRefused
from mm2.kafka.protocol.error_codes import ErrorCode
from tests.integration.consumer_group.members import (
    LONG_SESSION_MS,
    SESSION_MS,
    SOON,
    Watched,
    created,
    joined,
    membership,
    other_member,
    partitions,
)
from tests.integration.election.other_protocols import join_as
from tests.integration.kafka.clients import connected
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster
from tests.lab.listeners import AUTHORIZER, Listener

LISTENER = Listener(protocol=SecurityProtocol.SASL_PLAINTEXT, mechanisms=(SaslMechanism.PLAIN,))
NOBODY = PasswordLogin(mechanism=SaslMechanism.PLAIN, username="nobody", password="secret")


async def refusal(
    kafka: KafkaCluster, group: str, topic: str, *, session_timeout_ms: int = SESSION_MS
) -> MembershipRefused:
    """Run a member that is rejected, and return the error."""
    async with created(kafka, group, topic, client_id="rejected", session_timeout_ms=session_timeout_ms) as one:
        with pytest.raises(MembershipRefused) as caught:
            async with asyncio.timeout(SOON):
                await one.member.run()
        assert one.names == []
    return caught.value


async def test_a_session_timeout_that_the_broker_does_not_allow(kafka: KafkaCluster, group: str, topic: str) -> None:
    error = await refusal(kafka, group, topic, session_timeout_ms=10)
    assert error.code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert "session.timeout.ms = 10 must be between the broker's group.min.session.timeout.ms" in str(error)


async def test_members_with_another_assignor(kafka: KafkaCluster, group: str, topic: str) -> None:
    kafka.create_topic(topic)
    own = {"partition.assignment.strategy": "cooperative-sticky"}
    async with other_member(kafka, group, topic, client_id="java", **own) as other:
        await other.until_assigned(partitions(topic, 0))
        error = await refusal(kafka, group, topic)
    assert error.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert "its members use assignor cooperative-sticky (java at 127.0.0.1), this one range: stop all of" in str(error)
    assert "strategy of all of them to org.apache.kafka.clients.consumer.RangeAssignor, and group" in str(error)


async def test_members_with_an_assignor_that_could_be_offered(kafka: KafkaCluster, group: str, topic: str) -> None:
    kafka.create_topic(topic)
    own = {"partition.assignment.strategy": "roundrobin"}
    async with other_member(kafka, group, topic, **own) as other:
        await other.until_assigned(partitions(topic, 0))
        error = await refusal(kafka, group, topic)
    assert "this one range: add org.apache.kafka.clients.consumer.RoundRobinAssignor to partition.ass" in str(error)


async def test_members_with_another_protocol_type(kafka: KafkaCluster, group: str, topic: str) -> None:
    async with connected(kafka, client_id="worker") as cluster:
        await join_as(cluster, group, "connect")
        error = await refusal(kafka, group, topic)
    assert error.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    advice = f"stop them, or set another group.id than {group}"
    assert f"members with group protocol connect hold it (worker at 127.0.0.1): {advice}" in str(error)


async def test_a_group_that_is_full(kafka: KafkaCluster, group: str, topic: str) -> None:
    kafka.create_topic(topic, 3)
    async with AsyncExitStack() as members:
        for number in range(3):  # group.max.size
            one = await members.enter_async_context(joined(kafka, group, topic, client_id=f"copier-{number}"))
        await one.until_assigned(partitions(topic, 2))
        error = await refusal(kafka, group, topic)
    assert error.code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert "group.max.size" in str(error)


async def test_a_second_member_with_the_same_instance_id_fences_the_first(
    kafka: KafkaCluster, group: str, topic: str
) -> None:
    kafka.create_topic(topic)
    async with created(kafka, group, topic, instance_id="copier-1") as one:
        running = asyncio.create_task(one.member.run())
        await one.until_assigned(partitions(topic, 0))
        async with joined(kafka, group, topic, instance_id="copier-1") as two:
            await two.until_assigned(partitions(topic, 0))
            with pytest.raises(MembershipRefused, match=r"group\.instance\.id = copier-1: give each process its own"):
                async with asyncio.timeout(SOON):
                    await running
            assert one.names[-1] == "lost"
            assert two.partitions == partitions(topic, 0)


async def test_a_static_member_returns_without_a_rebalance(kafka: KafkaCluster, group: str, topic: str) -> None:
    kafka.create_topic(topic, 2)
    long = LONG_SESSION_MS  # they return within it
    async with joined(kafka, group, topic, client_id="b", instance_id="copier-2", session_timeout_ms=long) as two:
        await two.until_assigned(partitions(topic, 0, 1))  # it leads
        async with joined(kafka, group, topic, client_id="a", instance_id="copier-1", session_timeout_ms=long) as one:
            await one.until_assigned(partitions(topic, 0))
            await two.until_assigned(partitions(topic, 1))
            generation = two.generation
        async with joined(kafka, group, topic, client_id="a", instance_id="copier-1", session_timeout_ms=long) as one:
            await one.until_assigned(partitions(topic, 0))
            assert one.generation == two.generation == generation
    # as leader (KIP-814)
    async with joined(kafka, group, topic, client_id="b", instance_id="copier-2", session_timeout_ms=long) as two:
        await two.until_assigned(partitions(topic, 1))


async def test_a_principal_without_permission(start_cluster: StartCluster, group: str, topic: str) -> None:
    guarded = start_cluster("guarded", listeners=(LISTENER,), users={"nobody": "secret"}, properties=AUTHORIZER)
    protocol = LISTENER.protocol
    async with connected(guarded, protocol.value, security_protocol=protocol, sasl=NOBODY) as cluster:
        one = Watched(cluster, membership(group), "copier", [topic])
        async with asyncio.timeout(SOON):
            with pytest.raises(MembershipRefused, match=f"grant the principal READ on group {group}") as caught:
                await one.member.run()
    assert caught.value.code == ErrorCode.GROUP_AUTHORIZATION_FAILED
