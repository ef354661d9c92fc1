"""Kafka-specific parts of an election through a group: incompatible members, and requests that brokers reject."""

from __future__ import annotations

import base64
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import pytest
from aiokafka.protocol.group import LeaveGroupRequest

from mm2.election.kafka.group_messages import ELECTING, PROTOCOL_TYPE
from mm2.election.kafka.kafka_group import GroupSettings, KafkaGroup
from mm2.election.protocol import HeldByOther, Json, Lost, MemberInfo
from mm2.kafka.client.cluster import Cluster, CoordinatorKind
from mm2.kafka.clock import session_clock
from mm2.kafka.protocol.error_codes import ErrorCode
from tests.integration.election.members import SOON, Watched, info, names, watched
from tests.integration.election.other_protocols import join_as, try_join
from tests.integration.kafka.clients import connected, settings
from tests.lab.cluster import KafkaCluster
from tests.lab.freezing import frozen
from tests.lab.waiting import until

QUICK = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 200}  # 6 s is the broker's default minimum
WAITING_SESSION_MS = 3_000  # the session of a member that waits for a rebalance, shorter than the wait


@asynccontextmanager
async def member(kafka: KafkaCluster, group: str, node: str, **other: int) -> AsyncIterator[Watched]:
    options = GroupSettings(**{"group_id": group, **QUICK, **other})  # type: ignore[arg-type]
    making = Cluster(settings(kafka, client_id=node))
    async with making as cluster, watched(KafkaGroup(cluster, options, info(node), names)) as one:
        yield one


@pytest.fixture
def group(unique: Callable[[str], str]) -> str:
    return unique("A-mm2")


@pytest.mark.parametrize(
    ("protocol_type", "holder"),
    [("connect", "a Java MirrorMaker"), ("consumer", "another tool (group protocol consumer)")],
)
async def test_member_waits_for_another_protocol_and_names_it(
    cluster_b: KafkaCluster, group: str, protocol_type: str, holder: str
) -> None:
    async with connected(cluster_b, client_id="A->B") as other:
        other_id = await join_as(other, group, protocol_type)
        async with member(cluster_b, group, "one") as one:
            refused = HeldByOther(
                reason=f"{holder} holds group {group} on cluster b (A->B at 127.0.0.1); waiting until it stops"
            )
            await until(lambda: one.history[-1:] == [refused], SOON, "one is rejected and reports the holder")
            coordinator = await other.coordinator(CoordinatorKind.GROUP, group)
            await other.send(coordinator, LeaveGroupRequest(group, other_id))
            await one.until_joined()


@pytest.mark.parametrize("protocol_type", ["connect", "consumer"])
async def test_other_protocols_are_rejected_only_while_a_node_is_member(
    cluster_b: KafkaCluster, group: str, protocol_type: str
) -> None:
    async with member(cluster_b, group, "one") as one, connected(cluster_b) as other:
        await one.until_joined()
        answer = await try_join(other, group, protocol_type)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    async with connected(cluster_b) as other:
        await join_as(other, group, protocol_type)


async def test_joining_does_not_create_topics(cluster_b: KafkaCluster, group: str) -> None:
    async with connected(cluster_b) as cluster:
        before = set((await cluster.metadata(None)).topics)
        async with member(cluster_b, group, "one") as one:
            await one.until_joined()
        assert set((await cluster.metadata(None)).topics) - before <= {"__consumer_offsets"}


async def test_settings_rejected_by_the_broker_are_reported_with_the_property(
    cluster_b: KafkaCluster, group: str
) -> None:
    async with member(cluster_b, group, "one", session_timeout_ms=10) as one:
        lost = await until(
            lambda: [event for event in one.history if isinstance(event, Lost) and "INVALID" in event.reason],
            SOON,
            "the member reports the error",
        )
        assert "session.timeout.ms must be between" in lost[0].reason


async def test_largest_assignments_are_stored_and_larger_ones_are_reported(
    cluster_b: KafkaCluster, group: str, rng: random.Random
) -> None:
    sizes = [0]  # the last one counts; random bytes take 3 % more as Base64 and compressed again

    def assign(_generation: int, members: Mapping[str, MemberInfo]) -> dict[str, Json]:
        return dict.fromkeys(members, base64.b64encode(rng.randbytes(sizes[-1])).decode())

    options = GroupSettings(group_id=group, session_timeout_ms=6_000, heartbeat_interval_ms=200)
    making = Cluster(settings(cluster_b, client_id="one"))
    async with making as cluster, watched(KafkaGroup(cluster, options, info("one"), assign)) as one:
        for size, fits in ((900_000, True), (1_000_000, False), (900_000, True)):
            sizes.append(size)
            before = (await one.until_joined()).generation
            one.election.request_round()
            joined = await one.until_joined(after=before)
            assert (joined.assignment is not None) == fits
            assert fits or "more than a broker stores for a group" in str(joined.error)
    assert one.losses == []


async def test_member_that_waits_for_a_rebalance_keeps_its_membership_only_while_the_coordinator_answers(
    group_cluster: KafkaCluster, group: str
) -> None:
    async with (
        member(group_cluster, group, "one", session_timeout_ms=WAITING_SESSION_MS) as one,
        connected(group_cluster) as other,
    ):
        await one.until_joined()
        await join_as(other, group, PROTOCOL_TYPE, ELECTING)  # it never rejoins, so the next rebalance has to wait
        one.election.request_round()
        session, began = WAITING_SESSION_MS / 1000, session_clock()
        await until(lambda: session_clock() - began > 1.2 * session, SOON, "the wait outlasts the session")
        before = len(one.memberships)
        assert one.losses == []
        assert 0 < one.election.certain_for() <= session
        with frozen(group_cluster.broker(1).process):
            await until(lambda: one.losses, session + 3.0, "it notices that its session has expired")
            assert "no contact" in one.losses[0].reason
            assert one.election.certain_for() == 0
        await until(lambda: len(one.memberships) > before, SOON, "it rejoins")
