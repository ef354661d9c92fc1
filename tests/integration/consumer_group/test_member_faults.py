"""Members whose broker or process stops responding: the membership ends by the member's own clock, and comes back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.kafka.clock import session_clock
from tests.integration.consumer_group.conftest import PROPERTIES
from tests.integration.consumer_group.members import SESSION_MS, SOON, joined, partitions
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster
from tests.lab.freezing import frozen
from tests.lab.groups import committed
from tests.lab.waiting import require_within, until

SESSION = SESSION_MS / 1000


async def test_a_silent_member_stops_before_others_get_its_partitions(
    kafka: KafkaCluster, group: str, topic: str
) -> None:
    kafka.create_topic(topic, 2)
    connected = True
    async with (
        joined(kafka, group, topic, client_id="a", may_send=lambda: connected) as one,
        joined(kafka, group, topic, client_id="b") as two,
    ):
        await one.until_assigned(partitions(topic, 0))
        await two.until_assigned(partitions(topic, 1))
        connected = False
        silent = session_clock()
        await two.until_assigned(partitions(topic, 0, 1))
        assert one.names[-1] == "lost"
        assert one.last("lost") < two.last("assigned")
        require_within(one.last("lost") - silent, SESSION + 2.0, "the session ends by the member's own clock")
        assert one.member.certain_for() == 0
        assert one.member.status.last_error is not None
        connected = True
        await one.until_assigned(partitions(topic, 0))
        await two.until_assigned(partitions(topic, 1))


async def test_a_suspended_member_is_not_certain_before_it_does_anything(
    new_cluster: KafkaCluster, group: str, topic: str
) -> None:
    new_cluster.create_topic(topic)
    async with joined(new_cluster, group, topic, session_timeout_ms=1_000) as one:
        await one.until_assigned(partitions(topic, 0))
        time.sleep(1.1)  # noqa: ASYNC251 - blocks the event loop, as SIGSTOP does
        assert one.member.certain_for() == 0
        assert one.names == ["assigned"]
        await until(lambda: one.names == ["assigned", "lost", "assigned"], SOON, "the member has joined again")


async def test_partitions_are_lost_while_the_coordinator_hangs(kafka: KafkaCluster, group: str, topic: str) -> None:
    kafka.create_topic(topic)
    async with joined(kafka, group, topic, session_timeout_ms=1_500) as one:
        await one.until_assigned(partitions(topic, 0))
        with frozen(kafka.brokers[0].process):
            hangs = session_clock()
            await until(lambda: one.names == ["assigned", "lost"], SOON, "the partitions are lost")
            require_within(one.last("lost") - hangs, 1.5 + 2.0, "the session ends by the member's own clock")
        await one.until_assigned(partitions(topic, 0))
        assert await one.member.commit({TopicPartition(topic, 0): 5}) == {TopicPartition(topic, 0): None}


async def test_a_join_that_waits_at_a_coordinator_that_hangs(new_cluster: KafkaCluster, group: str, topic: str) -> None:
    new_cluster.create_topic(topic, 2)
    asked, complete = asyncio.Event(), asyncio.Event()
    async with joined(new_cluster, group, topic, client_id="a", session_timeout_ms=1_000) as one:
        await one.until_assigned(partitions(topic, 0, 1))

        async def block() -> None:
            asked.set()
            await complete.wait()

        one.on_revoked = block
        async with joined(new_cluster, group, topic, client_id="b", session_timeout_ms=1_000) as two:
            async with asyncio.timeout(SOON):
                await asked.wait()
            with frozen(new_cluster.brokers[0].process):
                await until(
                    lambda: one.revoked_cancelled and two.member.status.last_error,
                    SOON,
                    "the first member loses its partitions, the second does not wait for the response",
                )
            one.on_revoked = None
            complete.set()
            await one.until_assigned(partitions(topic, 0))
            await two.until_assigned(partitions(topic, 1))


@pytest.mark.long  # the client: tests/integration/kafka/test_group_coordinators.py
async def test_members_follow_the_coordinator_to_another_broker(
    start_cluster: StartCluster, unique: Callable[[str], str]
) -> None:
    cluster = start_cluster("three", brokers=3, properties=PROPERTIES)
    topic, group = cluster.create_topic(unique("orders"), 2), unique("copiers")
    async with (
        joined(cluster, group, topic, client_id="a", session_timeout_ms=60_000) as one,
        joined(cluster, group, topic, client_id="b", session_timeout_ms=60_000) as two,
    ):
        await one.until_assigned(partitions(topic, 0))
        await two.until_assigned(partitions(topic, 1))
        before = cluster.coordinator(group)
        before.kill()
        outcome = await one.member.commit({TopicPartition(topic, 0): 8})
        assert outcome == {TopicPartition(topic, 0): None}
        assert cluster.coordinator(group) is not before
        assert committed(cluster, group) == {(topic, 0): 8}
        after = one.generation
        topics = {topic, cluster.create_topic(unique("later"), copies=2)}
        one.topics = two.topics = topics
        one.member.resubscribe()
        two.member.resubscribe()
        await until(lambda: one.partitions and len(one.partitions) == 2, SOON, "the new coordinator rebalances")
        assert one.generation > after
        assert "lost" not in one.names + two.names
