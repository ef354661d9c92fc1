"""The producer of internal records: all records arrive in order, regardless of broker failures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.kafka.admin.topics import NewTopic, create_topics
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterClosed, ClusterError
from mm2.kafka.logs.control_producer import BufferFull, ControlProducer
from mm2.kafka.protocol.error_codes import ErrorCode
from tests.integration.kafka.clients import connected, settings
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import ClusterOf
from tests.lab.freezing import frozen
from tests.lab.history import read_topic
from tests.lab.jars import VERSIONS
from tests.lab.quotas import set_quota
from tests.lab.waiting import until

SOON = 60.0  # seconds: broker restarts on a busy machine


@pytest.mark.parametrize("version", VERSIONS)
async def test_records_arrive_in_order_with_their_offsets(
    cluster_of: ClusterOf, unique: Callable[[str], str], version: str
) -> None:
    kafka = cluster_of(version)
    name = kafka.create_topic(unique("log"), 25, config={"cleanup.policy": "compact"})
    async with connected(kafka) as cluster, ControlProducer(cluster) as producer:
        stored = [
            producer.send(name, n % 25, b"k%d" % n, None if n % 7 == 0 else b"v%d" % n, timestamp_ms=1_000 + n)
            for n in range(1_000)
        ]
        assert await producer.flush(SOON)
        assert [one.result() for one in stored] == [n // 25 for n in range(1_000)]
        assert await producer.flush(0)
        assert producer.last_error is None
    for number, records in read_topic(kafka.bootstrap, name).items():
        assert [one.content for one in records] == [
            (b"k%d" % n, None if n % 7 == 0 else b"v%d" % n, (), 1_000 + n) for n in range(number, 1_000, 25)
        ]


async def test_timestamp_is_now_by_default(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> None:
    name = cluster_b.create_topic(unique("log"))
    async with connected(cluster_b) as cluster, ControlProducer(cluster) as producer:
        await producer.send(name, 0, b"k", b"v")
    ((record,),) = read_topic(cluster_b.bootstrap, name).values()
    assert abs(record.content[3] / 1000 - time.time()) < SOON


async def test_more_records_than_fit_in_a_batch(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> None:
    name = cluster_b.create_topic(unique("log"))
    async with connected(cluster_b) as cluster, ControlProducer(cluster) as producer:
        stored = [producer.send(name, 0, b"%d" % n, bytes(100_000)) for n in range(40)]
        assert await asyncio.gather(*stored) == list(range(40))


async def test_rejected_record_fails_with_the_broker_message_alone(
    cluster_b: KafkaCluster, unique: Callable[[str], str]
) -> None:
    name = cluster_b.create_topic(unique("log"), 2, config={"cleanup.policy": "compact"})
    async with connected(cluster_b) as cluster, ControlProducer(cluster) as producer:
        without_key = producer.send(name, 0, None, b"v")
        other = producer.send(name, 1, b"k", b"v")
        with pytest.raises(
            BrokerError, match=f"cannot write to {name}-0: Compacted topic cannot accept message without key"
        ):
            await without_key
        assert await other == 0
        with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE"):
            await producer.send(name, 0, b"k", bytes(2_000_000))
        assert await producer.send(name, 0, b"k", b"v") == 0
        assert producer.last_error is None


async def test_producer_waits_for_a_missing_topic(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> None:
    name = unique("late")
    async with connected(cluster_b) as cluster, ControlProducer(cluster) as producer:
        stored = producer.send(name, 0, b"k", b"v")
        assert not await producer.flush(0.5)
        await until(lambda: producer.last_error is not None, SOON, "the missing topic is reported")
        assert isinstance(producer.last_error, BrokerError)
        assert producer.last_error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await create_topics(cluster, [NewTopic(name=name, partitions=1, replication_factor=1)])
        assert await asyncio.wait_for(stored, SOON) == 0


async def test_broker_restart_loses_repeats_and_reorders_nothing(
    breakable: KafkaCluster, unique: Callable[[str], str]
) -> None:
    kafka, name = breakable, breakable.create_topic(unique("log"), 3)
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
        await until(lambda: producer.last_error is not None, SOON, "the error is reported")
        kafka.broker(1).start()
        await send_for(1.0)
        await asyncio.to_thread(kafka.broker(1).wait_ready)
        assert await producer.flush(SOON)
        assert producer.last_error is None
    for number, records in read_topic(kafka.bootstrap, name).items():
        keys = [int(one.content[0] or b"") for one in records]
        assert keys == list(range(number, sent, 3))


async def test_requests_that_a_hanging_broker_executes_late_are_stored_once(
    breakable: KafkaCluster, unique: Callable[[str], str]
) -> None:
    kafka, name = breakable, breakable.create_topic(unique("log"))
    broker = kafka.broker(1).process
    async with connected(kafka, request_timeout_ms=500) as cluster, ControlProducer(cluster) as producer:
        await producer.send(name, 0, b"k", b"first")
        with frozen(broker):
            older = producer.send(name, 0, b"k", b"older")
            await until(lambda: producer.last_error is not None, SOON, "the request has timed out and is repeated")
            newer = producer.send(name, 0, b"k", b"newer")
        assert (await older, await newer) == (1, 2)
        assert await producer.send(name, 0, b"k", b"last") == 3
    (records,) = read_topic(kafka.bootstrap, name).values()
    assert [one.content[1] for one in records] == [b"first", b"older", b"newer", b"last"]


class FailsOnce(Cluster):
    """A client with a defect."""

    failed = False

    async def by_leader(
        self, partitions: Collection[TopicPartition]
    ) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, ClusterError]]:
        if not self.failed:
            self.failed = True
            raise RuntimeError("defect")
        return await super().by_leader(partitions)


async def test_an_unexpected_error_is_reported_and_retried(
    cluster_b: KafkaCluster, unique: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    name = cluster_b.create_topic(unique("log"))
    async with FailsOnce(settings(cluster_b)) as cluster, ControlProducer(cluster) as producer:
        stored = producer.send(name, 0, b"k", b"v")
        assert await producer.flush(SOON)
        assert stored.result() == 0
    assert f"unexpected error while writing to {name}-0" in caplog.text


async def test_a_closed_client_fails_the_records(cluster_b: KafkaCluster) -> None:
    async with connected(cluster_b) as cluster:
        pass
    async with ControlProducer(cluster) as producer:
        stored = producer.send("log", 0, b"k", b"v")
        assert await producer.flush(SOON)
        assert isinstance(stored.exception(), ClusterClosed)


async def test_buffer_is_bounded(gone: KafkaCluster) -> None:
    name = "log"
    async with connected(gone) as cluster, ControlProducer(cluster) as producer:
        for _ in range(32 * 1024 * 1024 // 1_000_000):
            producer.send(name, 0, b"k", bytes(999_000))
        with pytest.raises(BufferFull) as caught:
            producer.send(name, 0, b"k", bytes(999_000))
        assert caught.value.retriable
        await until(lambda: producer.last_error is not None, SOON, "the error is reported")
        with pytest.raises(BufferFull, match="connection refused"):
            producer.send(name, 0, b"k", bytes(999_000))


async def test_waiting_for_room(breakable: KafkaCluster, unique: Callable[[str], str]) -> None:
    kafka, name = breakable, breakable.create_topic(unique("log"))
    async with connected(kafka) as cluster, ControlProducer(cluster, buffer_bytes=100_000) as producer:
        await producer.send(name, 0, b"k", b"v")
        with frozen(kafka.broker(1).process):
            first = producer.send(name, 0, b"k", bytes(99_000))
            with pytest.raises(BufferFull):
                producer.send(name, 0, b"k", bytes(99_000))
            waiting = [asyncio.create_task(producer.room()) for _ in range(2)]
            assert not (await asyncio.wait(waiting, timeout=0.5))[0]
        await asyncio.wait_for(asyncio.gather(*waiting), SOON)
        assert first.result() == 1
        assert await producer.send(name, 0, b"k", bytes(99_000)) == 2


async def test_closing_ends_the_wait_for_room(gone: KafkaCluster) -> None:
    name = "log"
    async with connected(gone) as cluster:
        async with ControlProducer(cluster, buffer_bytes=1_000) as producer:
            producer.send(name, 0, b"k", bytes(500))
            waiting = asyncio.create_task(producer.room())
            assert not (await asyncio.wait({waiting}, timeout=0.2))[0]
        await asyncio.wait_for(waiting, SOON)


async def test_closing_fails_pending_records(gone: KafkaCluster) -> None:
    name = "log"
    async with connected(gone) as cluster:
        async with ControlProducer(cluster) as producer:
            waiting = producer.send(name, 0, b"k", b"v")
            assert not await producer.flush(0.2)
        with pytest.raises(ClusterClosed, match=f"before a record for {name}-0 was written"):
            await waiting
        with pytest.raises(ClusterClosed):
            producer.send(name, 0, b"k", b"v")


async def test_cancelled_wait_does_not_affect_others(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> None:
    name = cluster_b.create_topic(unique("log"))
    async with connected(cluster_b) as cluster, ControlProducer(cluster) as producer:
        given_up = producer.send(name, 0, b"1", b"v")
        kept = producer.send(name, 0, b"2", b"v")
        given_up.cancel()
        assert await kept == 1


async def test_quota_is_respected(breakable: KafkaCluster, unique: Callable[[str], str]) -> None:
    """A record sent while the broker mutes the connection would exceed its request timeout."""
    kafka, name = breakable, breakable.create_topic(unique("log"))
    async with connected(kafka, request_timeout_ms=2_000) as cluster, ControlProducer(cluster) as producer:
        with set_quota(kafka, "producer_byte_rate", 10_000):
            assert await producer.send(name, 0, b"k", bytes(96_000)) == 0
            assert producer.throttled > 7.0, "longer than the request timeout of 2 s plus the margin of 5 s"
            later = producer.send(name, 0, b"k", b"v")
            while not later.done():
                assert producer.last_error is None
                await asyncio.wait([later], timeout=0.1)
            assert producer.throttled == 0
            assert later.result() == 1, "stored once, so it was not sent twice"
