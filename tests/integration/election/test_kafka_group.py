"""What is Kafka's own in an election by groups: who may not be in one together, and what a broker refuses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiokafka.protocol.group import LeaveGroupRequest

from mm2.election.kafka_group import GroupSettings, KafkaGroup
from mm2.election.protocol import HeldByOther, Lost
from mm2.kafka.cluster import Cluster, CoordinatorKind
from mm2.kafka.error_codes import ErrorCode
from tests.integration.election.members import SOON, Watched, info, names, watched
from tests.integration.election.other_protocols import ask_to_join, join_as
from tests.integration.kafka.clients import connected, settings
from tests.lab.cluster import KafkaCluster
from tests.lab.waiting import until

QUICK = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 200}  # 6 s is the least a broker accepts by default


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
async def test_another_protocol_is_waited_out_and_named(
    cluster_b: KafkaCluster, group: str, protocol_type: str, holder: str
) -> None:
    async with connected(cluster_b, client_id="A->B") as other:
        other_id = await join_as(other, group, protocol_type)
        async with member(cluster_b, group, "one") as one:
            refused = HeldByOther(
                reason=f"{holder} holds group {group} on cluster b (A->B at 127.0.0.1): waiting until it ends"
            )
            await until(lambda: one.history[-1:] == [refused], SOON, "one is refused and says by whom")
            coordinator = await other.coordinator(CoordinatorKind.GROUP, group)
            await other.send(coordinator, LeaveGroupRequest(group, other_id))
            await one.until_joined()


@pytest.mark.parametrize("protocol_type", ["connect", "consumer"])
async def test_others_are_refused_while_we_are_there_and_only_then(
    cluster_b: KafkaCluster, group: str, protocol_type: str
) -> None:
    async with member(cluster_b, group, "one") as one, connected(cluster_b) as other:
        await one.until_joined()
        answer = await ask_to_join(other, group, protocol_type)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    async with connected(cluster_b) as other:
        await join_as(other, group, protocol_type)


async def test_joining_creates_no_topic(cluster_b: KafkaCluster, group: str) -> None:
    async with connected(cluster_b) as cluster:
        before = set((await cluster.metadata(None)).topics)
        async with member(cluster_b, group, "one") as one:
            await one.until_joined()
        assert set((await cluster.metadata(None)).topics) - before <= {"__consumer_offsets"}


async def test_settings_the_broker_refuses_are_told_with_the_key(cluster_b: KafkaCluster, group: str) -> None:
    async with member(cluster_b, group, "one", session_timeout_ms=10) as one:
        lost = await until(
            lambda: [event for event in one.history if isinstance(event, Lost) and "INVALID" in event.reason],
            SOON,
            "it says what is wrong",
        )
        assert "session.timeout.ms must be between" in lost[0].reason
