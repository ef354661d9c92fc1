"""Reading compacted topics to their end repeatedly, during compaction, transactions and broker failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import pytest
from confluent_kafka import TopicPartition as PartitionOfClient

from mm2.core.naming.names import TopicPartition
from mm2.core.settings.client import IsolationLevel
from mm2.kafka.client.offsets import OffsetSpec, list_offsets
from mm2.kafka.errors import BrokerError, ClusterError
from mm2.kafka.logs.compacted_log import CompactedLog
from mm2.kafka.logs.stored_records import StoredRecord
from tests.integration.kafka.clients import connected, led
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import ClusterOf
from tests.lab.freezing import freeze, thaw
from tests.lab.history import read_topic
from tests.lab.jars import VERSIONS
from tests.lab.records import Outgoing, write, write_transactions
from tests.lab.waiting import until

T = TypeVar("T")

SOON = 60.0  # seconds: the log cleaner runs periodically, on a busy machine
COMPACTED = {"cleanup.policy": "compact"}
CLEANED_OFTEN = COMPACTED | {
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.001",
    "delete.retention.ms": "0",
    "max.compaction.lag.ms": "200",
}


async def all_of(found: AsyncIterator[T]) -> list[T]:
    return [one async for one in found]


def as_read_by_another(kafka: KafkaCluster, topic: str, isolation: IsolationLevel) -> list[tuple[int, int, bytes]]:
    """Return (partition, offset, value) of all records as read by the independent client."""
    partitions = read_topic(kafka.bootstrap, topic, isolation=str(isolation))
    return sorted((one.partition, one.offset, one.content[1] or b"") for rows in partitions.values() for one in rows)


def ours(records: list[StoredRecord]) -> list[tuple[int, int, bytes]]:
    return sorted((one.partition, one.offset, one.value or b"") for one in records)


@pytest.mark.parametrize("version", VERSIONS)
async def test_all_records_are_read_once_then_only_new_ones(
    cluster_of: ClusterOf, unique: Callable[[str], str], version: str
) -> None:
    kafka = cluster_of(version)
    name = kafka.create_topic(unique("log"), 25, config=COMPACTED)
    async with connected(kafka) as cluster:
        await led(cluster, TopicPartition(name, 24))
        log = CompactedLog(cluster, name)
        assert await all_of(log.read_to_end()) == []

        first = [Outgoing(key=b"%d" % n, value=b"v%d" % n, partition=n % 25, timestamp_ms=1_000) for n in range(3_000)]
        write(kafka.bootstrap, name, first, codec="lz4")
        found = await all_of(log.read_to_end())
        assert ours(found) == as_read_by_another(kafka, name, IsolationLevel.READ_UNCOMMITTED)
        assert {one.timestamp for one in found} == {1_000}
        for number in range(25):
            offsets = [one.offset for one in found if one.partition == number]
            assert offsets == sorted(offsets)

        assert await all_of(log.read_to_end()) == []
        write(kafka.bootstrap, name, [Outgoing(key=b"1", value=None, partition=1)])
        (tombstone,) = await all_of(log.read_to_end())
        assert (tombstone.partition, tombstone.offset, tombstone.key, tombstone.value) == (1, 120, b"1", None)


async def test_reading_only_the_end_of_each_partition(cluster_a: KafkaCluster, unique: Callable[[str], str]) -> None:
    """Used for heartbeats, since old ones are irrelevant."""
    name = cluster_a.create_topic(unique("log"), 3, config=COMPACTED)
    for partition, count in enumerate((10, 3, 0)):
        records = [Outgoing(key=b"%d" % n, value=b"%d" % n, partition=partition) for n in range(count)]
        write(cluster_a.bootstrap, name, records)
    async with connected(cluster_a) as cluster:
        await led(cluster, TopicPartition(name, 2))
        log = CompactedLog(cluster, name, last=4)
        wanted = [
            one for one in as_read_by_another(cluster_a, name, IsolationLevel.READ_UNCOMMITTED) if one[:2] >= (0, 6)
        ]
        assert ours(await all_of(log.read_to_end())) == wanted
        write(cluster_a.bootstrap, name, [Outgoing(key=b"%d" % n, value=b"new", partition=2) for n in range(9)])
        assert len(await all_of(log.read_to_end())) == 9  # from the last position, not from the end again


async def test_large_records(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> None:
    name = cluster_b.create_topic(unique("log"), 3, config=COMPACTED)
    big = [Outgoing(key=b"%d" % n, value=bytes(900_000), partition=n % 3) for n in range(12)]
    write(cluster_b.bootstrap, name, big)
    async with connected(cluster_b) as cluster:
        found = await all_of(CompactedLog(cluster, name).read_to_end())
    assert len(found) == 12


async def test_offset_gaps_from_compaction_are_skipped(breakable: KafkaCluster, unique: Callable[[str], str]) -> None:
    kafka, name = breakable, breakable.create_topic(unique("log"), 1, config=CLEANED_OFTEN)

    written = 0

    def cleaned() -> bool:
        nonlocal written
        written += write(kafka.bootstrap, name, [Outgoing(key=b"k%d" % (n % 3), value=b"v%d" % n) for n in range(50)])
        return len(as_read_by_another(kafka, name, IsolationLevel.READ_UNCOMMITTED)) < written

    await until(cleaned, SOON, "the cleaner has removed records")
    async with connected(kafka) as cluster:
        found = await all_of(CompactedLog(cluster, name).read_to_end())
        (end,) = (await list_offsets(cluster, [TopicPartition(name, 0)], OffsetSpec.LATEST)).values()
    assert isinstance(end, int)
    assert len(found) < end
    assert {one.key: one.value for one in found} == {b"k0": b"v48", b"k1": b"v49", b"k2": b"v47"}


async def test_transactions(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> None:
    name = cluster_b.create_topic(unique("log"), 2, config=COMPACTED)
    transactions = [
        ([Outgoing(key=b"k%d" % n, value=b"%d of %d" % (n, round_), partition=n % 2) for n in range(20)], commit)
        for round_, commit in enumerate([True, False, False, True, False])
    ]
    write_transactions(cluster_b.bootstrap, name, transactions, transactional_id=unique("writer"))
    async with connected(cluster_b) as cluster:
        for isolation in IsolationLevel:
            log = CompactedLog(cluster, name, isolation=isolation)
            assert ours(await all_of(log.read_to_end())) == as_read_by_another(cluster_b, name, isolation)
            assert await all_of(log.read_to_end()) == []


async def test_following_reads_new_records(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> None:
    name = cluster_b.create_topic(unique("log"), 3, config=COMPACTED)
    async with connected(cluster_b) as cluster:
        await led(cluster, *(TopicPartition(name, number) for number in range(3)))
        following = CompactedLog(cluster, name).follow()
        for number in range(5):
            write(cluster_b.bootstrap, name, [Outgoing(key=b"k", value=b"%d" % number, partition=number % 3)])
            async with asyncio.timeout(SOON):
                assert (await anext(following)).value == b"%d" % number
        await following.aclose()  # type: ignore[attr-defined]


async def test_following_continues_after_broker_restart(breakable: KafkaCluster, unique: Callable[[str], str]) -> None:
    kafka, name = breakable, breakable.create_topic(unique("log"), 1, config=COMPACTED)
    async with connected(kafka) as cluster:
        await led(cluster, TopicPartition(name, 0))
        log = CompactedLog(cluster, name)
        following = log.follow()
        next_one = asyncio.ensure_future(anext(following))
        kafka.broker(1).kill()
        await until(lambda: log.last_error is not None, SOON, "the error is reported")
        kafka.broker(1).start()
        kafka.broker(1).wait_ready()
        write(kafka.bootstrap, name, [Outgoing(key=b"k", value=b"after")])
        async with asyncio.timeout(SOON):
            assert (await next_one).value == b"after"
        assert log.last_error is None
        await following.aclose()  # type: ignore[attr-defined]


async def test_reading_continues_after_deleted_records(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> None:
    name = cluster_b.create_topic(unique("log"), 1, config={"cleanup.policy": "compact,delete"})
    write(cluster_b.bootstrap, name, [Outgoing(key=b"k", value=b"%d" % n) for n in range(10)])
    async with connected(cluster_b) as cluster:
        log = CompactedLog(cluster, name)
        assert len(await all_of(log.read_to_end())) == 10
        write(cluster_b.bootstrap, name, [Outgoing(key=b"k", value=b"%d" % n) for n in range(10, 20)])
        cut = PartitionOfClient(name, 0, 15)
        cluster_b.admin.delete_records([cut])[cut].result(30)
        assert [one.value for one in await all_of(log.read_to_end())] == [b"%d" % n for n in range(15, 20)]


async def test_missing_topic_is_reported(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> None:
    name = unique("log")
    async with connected(cluster_b) as cluster:
        await cluster.metadata([])  # connected, so that the deadline is only for the answers
        with pytest.raises(BrokerError, match=f"cannot read topic {name}: UNKNOWN_TOPIC_OR_PARTITION"):
            await all_of(CompactedLog(cluster, name).read_to_end(timeout_ms=1_000))


async def test_reading_raises_at_its_deadline(breakable: KafkaCluster, unique: Callable[[str], str]) -> None:
    kafka, name = breakable, breakable.create_topic(unique("log"), 1, config=COMPACTED)
    async with connected(kafka, request_timeout_ms=500) as cluster:
        await led(cluster, TopicPartition(name, 0))
        freeze(kafka.broker(1).process)
        with pytest.raises(ClusterError):
            await all_of(CompactedLog(cluster, name).read_to_end(timeout_ms=1_000))
        thaw(kafka.broker(1).process)
