"""Members of a consumer group: assignments, hand-over, commits, changes of the subscription."""

from __future__ import annotations

import asyncio

import pytest
from confluent_kafka import Producer

from mm2.core.naming.names import TopicPartition
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.clock import session_clock
from mm2.kafka.errors import RequestTimedOut
from mm2.kafka.groups.consumer_member import commit_as_member
from mm2.kafka.groups.member_errors import CommitFailed
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.membership_requests import Generation
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
from tests.integration.kafka.clients import settings
from tests.lab.cluster import KafkaCluster
from tests.lab.groups import committed
from tests.lab.waiting import require_within, until


async def test_one_member_has_all_partitions_and_another_client_continues(
    kafka: KafkaCluster, group: str, topic: str
) -> None:
    kafka.create_topic(topic, 2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(20):
        producer.produce(topic, str(number), partition=number % 2)
    producer.flush(SOON)
    async with joined(kafka, group, topic) as one:
        await one.until_assigned(partitions(topic, 0, 1))
        assert 0 < one.member.certain_for() <= SESSION_MS / 1000
        outcome = await one.member.commit({TopicPartition(topic, 0): 7, TopicPartition(topic, 1): 3})
        assert outcome == dict.fromkeys(partitions(topic, 0, 1))
        assert committed(kafka, group) == {(topic, 0): 7, (topic, 1): 3}
    assert one.names == ["assigned", "revoked"]
    assert one.member.certain_for() == 0
    async with other_member(kafka, group, topic) as other:
        await until(lambda: len(other.offsets) == 2, SOON, "the other client reads both partitions")
        assert other.offsets == {TopicPartition(topic, 0): 7, TopicPartition(topic, 1): 3}


async def test_two_members_share_partitions_until_one_leaves(kafka: KafkaCluster, group: str, topic: str) -> None:
    kafka.create_topic(topic, 3)
    long = LONG_SESSION_MS
    async with joined(kafka, group, topic, client_id="a", session_timeout_ms=long) as one:
        await one.until_assigned(partitions(topic, 0, 1, 2))
        async with joined(kafka, group, topic, client_id="b", session_timeout_ms=long) as two:
            await one.until_assigned(partitions(topic, 0, 1))
            await two.until_assigned(partitions(topic, 2))
            assert one.member.status.is_leader
            assert not two.member.status.is_leader
            assert one.generation == two.generation == one.member.status.generation
        await one.until_assigned(partitions(topic, 0, 1, 2))
        assert one.last("assigned") - two.last("revoked") < long / 1000, "the member has left"
    assert one.names == ["assigned", "revoked"] * 3


async def test_members_that_share_a_client_do_not_wait_for_each_other(
    new_cluster: KafkaCluster, group: str, topic: str
) -> None:
    """A join waits at the broker until the other member, which may use the same broker, has joined again."""
    new_cluster.create_topic(topic, 2)
    async with Cluster(settings(new_cluster)) as cluster:
        one, two = (Watched(cluster, membership(group), client_id, [topic]) for client_id in ("a", "b"))
        async with asyncio.TaskGroup() as running:
            running.create_task(one.member.run())
            await one.until_assigned(partitions(topic, 0, 1))
            running.create_task(two.member.run())
            await one.until_assigned(partitions(topic, 0))
            await two.until_assigned(partitions(topic, 1))
            one.member.stop()
            two.member.stop()
    assert "lost" not in one.names + two.names


@pytest.mark.parametrize("ours_leads", [True, False])
async def test_members_of_another_client_share_partitions(
    kafka: KafkaCluster, group: str, topic: str, ours_leads: bool
) -> None:
    """Members are in the order of their IDs, which begin with the client ID."""
    kafka.create_topic(topic, 5)
    everything = partitions(topic, *range(5))
    ours, others = joined(kafka, group, topic, client_id="a"), other_member(kafka, group, topic, client_id="b")
    if ours_leads:
        async with ours as one:
            await one.until_assigned(everything)
            async with others as other:
                await one.until_assigned(partitions(topic, 0, 1, 2))
                await other.until_assigned(partitions(topic, 3, 4))
                assert one.member.status.is_leader
            await one.until_assigned(everything)
    else:
        async with others as other:
            await other.until_assigned(everything)
            async with ours as one:
                await one.until_assigned(partitions(topic, 0, 1, 2))
                await other.until_assigned(partitions(topic, 3, 4))
                assert not one.member.status.is_leader
            await other.until_assigned(everything)


async def test_members_of_the_new_protocol_share_partitions(new_cluster: KafkaCluster, group: str, topic: str) -> None:
    """The coordinator assigns then (KIP-848, group.consumer.migration.policy=bidirectional, the default from 4.0)."""
    new_cluster.create_topic(topic, 4)
    everything = partitions(topic, *range(4))
    async with other_member(new_cluster, group, topic, **{"group.protocol": "consumer"}) as other:
        await other.until_assigned(everything)
        async with joined(new_cluster, group, topic) as one:
            await until(
                lambda: len(other.partitions) == 2 and one.partitions == everything - other.partitions,
                SOON,
                "each member has two partitions",
            )
            assert not one.member.status.is_leader
            offsets = dict.fromkeys(one.partitions or (), 9)
            assert await one.member.commit(offsets) == dict.fromkeys(offsets)
        await other.until_assigned(everything)


async def test_partitions_are_released_after_revocation_is_complete(
    kafka: KafkaCluster, group: str, topic: str
) -> None:
    """Heartbeats continue meanwhile, for longer than a session, and commits are accepted."""
    kafka.create_topic(topic, 2)
    asked, complete = asyncio.Event(), asyncio.Event()
    async with joined(kafka, group, topic, client_id="a", session_timeout_ms=SESSION_MS) as one:
        await one.until_assigned(partitions(topic, 0, 1))

        async def commit_when_complete() -> None:
            asked.set()
            await complete.wait()
            assert await one.member.commit({TopicPartition(topic, 0): 42}) == {TopicPartition(topic, 0): None}

        one.on_revoked = commit_when_complete
        async with joined(kafka, group, topic, client_id="b") as two:
            async with asyncio.timeout(SOON):
                await asked.wait()
            await asyncio.sleep(1.25 * SESSION_MS / 1000)  # longer than the session
            assert one.member.certain_for() > 0
            assert two.names == []
            complete.set()
            await two.until_assigned(partitions(topic, 1))
            assert one.last("revoked") < two.last("assigned")
            assert committed(kafka, group) == {(topic, 0): 42}
            await one.until_assigned(partitions(topic, 0))
            one.on_revoked = None
    assert "lost" not in one.names


async def test_revocation_ends_after_max_poll_interval(new_cluster: KafkaCluster, group: str, topic: str) -> None:
    new_cluster.create_topic(topic, 2)
    async with joined(new_cluster, group, topic, client_id="a", max_poll_interval_ms=1_500) as one:
        await one.until_assigned(partitions(topic, 0, 1))
        one.on_revoked = asyncio.Event().wait
        async with joined(new_cluster, group, topic, client_id="b", max_poll_interval_ms=1_500) as two:
            await until(lambda: "lost" in one.names, SOON, "the first member gives up its partitions")
            assert one.revoked_cancelled
            one.on_revoked = None
            await until(lambda: two.partitions, SOON, "the second member has partitions")
            assert one.last("lost") < two.events[0][1]
            await one.until_assigned(partitions(topic, 0))
            await two.until_assigned(partitions(topic, 1))


async def test_commits_of_an_earlier_generation_fail(kafka: KafkaCluster, group: str, topic: str) -> None:
    kafka.create_topic(topic)
    offsets = {TopicPartition(topic, 0): 1}
    async with Cluster(settings(kafka)) as cluster, joined(kafka, group, topic) as one:
        await one.until_assigned(partitions(topic, 0))
        for generation, member_id, code in (
            (one.generation - 1, one.member._requests.generation.member_id, ErrorCode.ILLEGAL_GENERATION),
            (one.generation, "another", ErrorCode.UNKNOWN_MEMBER_ID),
        ):
            earlier = Generation(group_id=group, generation=generation, member_id=member_id, instance_id=None)
            outcome = await commit_as_member(
                cluster, earlier, offsets, is_current=lambda: True, purpose="test", timeout_ms=10_000
            )
            (error,) = outcome.values()
            assert isinstance(error, CommitFailed)
            assert error.code == code
    (error,) = (await one.member.commit(offsets)).values()
    assert isinstance(error, CommitFailed), "the member has left"
    assert committed(kafka, group) == {}


async def test_leader_assigns_new_topics_and_partitions(kafka: KafkaCluster, group: str, topic: str) -> None:
    kafka.create_topic(topic)
    later = kafka.create_topic(f"{topic}-later")
    async with (
        joined(kafka, group, topic, client_id="a") as one,
        joined(kafka, group, topic, client_id="b", heartbeat_interval_ms=200) as two,
    ):
        await until(lambda: one.partitions is not None and two.partitions == set(), SOON, "both members have joined")
        kafka.grow_topic(topic, 2)
        one.member.resubscribe()
        two.member.resubscribe()
        await two.until_assigned(partitions(topic, 1))
        two.topics = {topic, later}
        two.member.resubscribe()
        await two.until_assigned({*partitions(topic, 1), *partitions(later, 0)})
        await until(lambda: one.generation == two.generation, SOON, "both have begun the generation")
        generations = one.generation, two.generation
        one.member.resubscribe()
        two.member.resubscribe()
        await asyncio.sleep(1.0)  # several heartbeats
        assert (one.generation, two.generation) == generations, "nothing has changed, so there is no rebalance"


async def test_a_member_that_waits_for_the_others_can_be_stopped(
    new_cluster: KafkaCluster, group: str, topic: str
) -> None:
    new_cluster.create_topic(topic, 2)
    asked, complete = asyncio.Event(), asyncio.Event()
    async with joined(new_cluster, group, topic, client_id="a") as one:
        await one.until_assigned(partitions(topic, 0, 1))

        async def block() -> None:
            asked.set()
            await complete.wait()

        one.on_revoked = block
        async with joined(new_cluster, group, topic, client_id="b") as two:
            async with asyncio.timeout(SOON):
                await asked.wait()
            waited = session_clock()
        require_within(session_clock() - waited, 15.0, "it does not wait for the first member")
        assert two.names == []
        complete.set()
        one.on_revoked = None
        await one.until_assigned(partitions(topic, 0, 1))


async def test_an_exception_of_the_handler_ends_the_membership(
    new_cluster: KafkaCluster, group: str, topic: str
) -> None:
    new_cluster.create_topic(topic)

    async def fail() -> None:
        raise RequestTimedOut("the flush did not end")

    async with created(new_cluster, group, topic, client_id="a") as one:
        one.on_revoked = fail
        running = asyncio.create_task(one.member.run())
        await one.until_assigned(partitions(topic, 0))
        async with joined(new_cluster, group, topic, client_id="b") as two:
            with pytest.raises(RequestTimedOut, match="the flush did not end"):
                async with asyncio.timeout(SOON):
                    await running
            assert one.names == ["assigned", "lost"]
            await two.until_assigned(partitions(topic, 0))
