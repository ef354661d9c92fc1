"""The producer of internal records: everything arrives, in order, whatever the broker does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from mm2.core.names import TopicPartition
from mm2.kafka.control_producer import BufferFull, ControlProducer
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import BrokerError, ClusterClosed
from mm2.kafka.topics import NewTopic, create_topics
from tests.faults.quotas import set_quota
from tests.integration.kafka.clients import connected, led
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster
from tests.lab.history import read_topic
from tests.lab.jars import VERSIONS
from tests.lab.waiting import until

SOON = 60.0  # seconds: broker restarts on a machine that is busy


@pytest.mark.parametrize("version", VERSIONS)
async def test_records_arrive_in_order_with_their_offsets(start_cluster: StartCluster, version: str) -> None:
    kafka = start_cluster(version=version)
    name = kafka.create_topic("log", 25, config={"cleanup.policy": "compact"})
    async with connected(kafka) as cluster, ControlProducer(cluster) as producer:
        stored = [
            producer.send(name, n % 25, b"k%d" % n, None if n % 7 == 0 else b"v%d" % n, timestamp_ms=1_000 + n)
            for n in range(1_000)
        ]
        assert await producer.flush(SOON)
        assert [one.result() for one in stored] == [n // 25 for n in range(1_000)]
        assert await producer.flush(0)
        assert producer.trouble is None
    for number, records in read_topic(kafka.bootstrap, name).items():
        assert [one.content for one in records] == [
            (b"k%d" % n, None if n % 7 == 0 else b"v%d" % n, (), 1_000 + n) for n in range(number, 1_000, 25)
        ]


async def test_now_is_the_time_unless_told(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> None:
    name = cluster_b.create_topic(unique("log"))
    async with connected(cluster_b) as cluster, ControlProducer(cluster) as producer:
        await producer.send(name, 0, b"k", b"v")
    ((record,),) = read_topic(cluster_b.bootstrap, name).values()
    assert abs(record.content[3] / 1000 - time.time()) < SOON


async def test_more_than_a_batch(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> None:
    name = cluster_b.create_topic(unique("log"))
    async with connected(cluster_b) as cluster, ControlProducer(cluster) as producer:
        stored = [producer.send(name, 0, b"%d" % n, bytes(100_000)) for n in range(40)]
        assert await asyncio.gather(*stored) == list(range(40))


async def test_what_the_broker_refuses_fails_in_its_words_and_the_rest_goes_on(
    cluster_b: KafkaCluster, unique: Callable[[str], str]
) -> None:
    name = cluster_b.create_topic(unique("log"), 2, config={"cleanup.policy": "compact"})
    async with connected(cluster_b) as cluster, ControlProducer(cluster) as producer:
        without_key = producer.send(name, 0, None, b"v")
        other = producer.send(name, 1, b"k", b"v")
        with pytest.raises(BrokerError, match=f"write to {name}-0: Compacted topic cannot accept message without key"):
            await without_key
        assert await other == 0
        with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE"):
            await producer.send(name, 0, b"k", bytes(2_000_000))
        assert await producer.send(name, 0, b"k", b"v") == 0
        assert producer.trouble is None


async def test_a_topic_that_comes_later_is_waited_for(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> None:
    name = unique("late")
    async with connected(cluster_b) as cluster, ControlProducer(cluster) as producer:
        stored = producer.send(name, 0, b"k", b"v")
        assert not await producer.flush(0.5)
        assert isinstance(producer.trouble, BrokerError)
        assert producer.trouble.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await create_topics(cluster, [NewTopic(name=name, partitions=1, replication_factor=1)])
        assert await asyncio.wait_for(stored, SOON) == 0


async def test_a_restart_loses_and_reorders_nothing(start_cluster: StartCluster) -> None:
    kafka = start_cluster()
    name = kafka.create_topic("log", 3)
    async with connected(kafka) as cluster, ControlProducer(cluster) as producer:
        sent = 0

        async def send_for(seconds: float) -> None:
            nonlocal sent
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                producer.send(name, sent % 3, b"%d" % sent, b"v")
                sent += 1
                await asyncio.sleep(0.001)

        await send_for(1.0)
        kafka.broker(1).kill()
        await send_for(1.0)
        assert producer.trouble is not None
        kafka.broker(1).start()
        await send_for(1.0)
        assert await producer.flush(SOON)
        assert producer.trouble is None
    for number, records in read_topic(kafka.bootstrap, name).items():
        keys = [int(one.content[0] or b"") for one in records]
        assert sorted(set(keys)) == list(range(number, sent, 3))
        last_of_each = {key: at for at, key in enumerate(keys)}
        assert sorted(last_of_each, key=last_of_each.__getitem__) == sorted(last_of_each)


async def test_a_leader_that_moves_is_followed(start_cluster: StartCluster) -> None:
    kafka = start_cluster(brokers=3)
    name = kafka.create_topic("log", 3, copies=3, config={"min.insync.replicas": "2"})
    async with connected(kafka) as cluster, ControlProducer(cluster) as producer:
        await led(cluster, *(TopicPartition(name, number) for number in range(3)))
        await asyncio.gather(*(producer.send(name, number, b"k", b"before") for number in range(3)))
        kafka.leader(name).kill()
        after = [producer.send(name, number, b"k", b"after") for number in range(3)]
        assert await producer.flush(SOON)
        assert all(one.result() >= 1 for one in after)


async def test_it_holds_no_more_than_its_bound(start_cluster: StartCluster) -> None:
    kafka = start_cluster()
    name = kafka.create_topic("log")
    kafka.broker(1).kill()
    async with connected(kafka) as cluster, ControlProducer(cluster) as producer:
        for _ in range(32 * 1024 * 1024 // 1_000_000):
            producer.send(name, 0, b"k", bytes(999_000))
        with pytest.raises(BufferFull) as caught:
            producer.send(name, 0, b"k", bytes(999_000))
        assert caught.value.retriable
        await until(lambda: producer.trouble is not None, SOON, "it says what is wrong")
        with pytest.raises(BufferFull, match="nothing listens there"):
            producer.send(name, 0, b"k", bytes(999_000))


async def test_closing_fails_what_is_not_stored(start_cluster: StartCluster) -> None:
    kafka = start_cluster()
    name = kafka.create_topic("log")
    kafka.broker(1).kill()
    async with connected(kafka) as cluster:
        async with ControlProducer(cluster) as producer:
            waiting = producer.send(name, 0, b"k", b"v")
            assert not await producer.flush(0.2)
        with pytest.raises(ClusterClosed, match=f"before a record for {name}-0 was stored"):
            await waiting
        with pytest.raises(ClusterClosed):
            producer.send(name, 0, b"k", b"v")


async def test_who_gives_up_waiting_disturbs_nobody(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> None:
    name = cluster_b.create_topic(unique("log"))
    async with connected(cluster_b) as cluster, ControlProducer(cluster) as producer:
        given_up = producer.send(name, 0, b"1", b"v")
        kept = producer.send(name, 0, b"2", b"v")
        given_up.cancel()
        assert await kept == 1


async def test_a_quota_is_waited_out(start_cluster: StartCluster) -> None:
    """Sent while the broker does not read, the second record would run into the time limit of its request."""
    kafka = start_cluster()
    name = kafka.create_topic("log")
    async with connected(kafka, request_timeout_ms=2_000) as cluster, ControlProducer(cluster) as producer:
        with set_quota(kafka, "producer_byte_rate", 10_000):
            assert await producer.send(name, 0, b"k", bytes(250_000)) == 0
            assert producer.throttled > 7.0, "longer than the request's two seconds, and the five of room"
            later = producer.send(name, 0, b"k", b"v")
            while not later.done():
                assert producer.trouble is None
                await asyncio.wait([later], timeout=0.1)
            assert producer.throttled == 0
            assert later.result() == 1, "stored once: nothing was sent twice"
