"""Records written in transactions with a transactional ID: atomic writes, and fencing of replaced writers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest
from confluent_kafka import KafkaException, Producer

from mm2.core.settings.client import IsolationLevel
from mm2.kafka.errors import BrokerError, ClusterError
from mm2.kafka.logs.compacted_log import CompactedLog
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.kafka.logs.transaction_coordinator import Fenced
from mm2.kafka.logs.transactional_writer import TransactionalWriter
from mm2.kafka.protocol.error_codes import ErrorCode
from tests.integration.kafka.clients import connected
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import ClusterOf, StartCluster
from tests.lab.freezing import freeze, thaw
from tests.lab.history import read_topic
from tests.lab.jars import VERSIONS
from tests.lab.waiting import until

SOON = 60.0  # seconds: broker restarts on a busy machine
ID = "connect-cluster-A-mm2"
Pair = tuple[bytes, bytes | None]


def stored(kafka: KafkaCluster, topic: str, isolation: str = "read_committed") -> list[Pair]:
    """Return keys and values of a single-partition topic as read by the independent client."""
    (records,) = read_topic(kafka.bootstrap, topic, isolation=isolation).values()
    return [(one.content[0] or b"", one.content[1]) for one in records]


def pairs(name: str, count: int, size: int = 10) -> list[Pair]:
    return [(b"%s-%d" % (name.encode(), number), bytes(size)) for number in range(count)]


@pytest.mark.parametrize("version", VERSIONS)
async def test_newer_writer_fences_the_older(cluster_of: ClusterOf, unique: Callable[[str], str], version: str) -> None:
    kafka = cluster_of(version)
    own, topic = unique("id"), kafka.create_topic(unique("log"), config={"cleanup.policy": "compact"})
    async with connected(kafka) as cluster, connected(kafka) as other:
        old, new = TransactionalWriter(cluster, own), TransactionalWriter(other, own)
        await old.begin()
        assert await old.write(topic, 0, [(b"a", b"1"), (b"b", None)]) == 1
        assert await old.write(topic, 0, [(b"c", b"3")]) == 3, "the commit marker has an offset"
        assert await old.write(topic, 0, []) == -1
        assert stored(kafka, topic) == [(b"a", b"1"), (b"b", None), (b"c", b"3")]
        await new.begin()
        assert await new.write(topic, 0, [(b"c", b"4")]) == 5
        for _ in range(2):
            with pytest.raises(Fenced, match=own):
                await old.write(topic, 0, [(b"c", b"stale")])
        assert await new.write(topic, 0, [(b"d", b"5")]) == 7
        assert stored(kafka, topic)[3:] == [(b"c", b"4"), (b"d", b"5")]
        await old.begin()
        await old.write(topic, 0, [(b"e", b"6")])
        with pytest.raises(Fenced):
            await new.write(topic, 0, [(b"e", b"stale")])
    assert stored(kafka, topic)[5:] == [(b"e", b"6")]


async def test_fencing_with_another_program(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> None:
    """The other producer writes as Java's leader does."""
    topic, own = cluster_b.create_topic(unique("log")), unique("id")
    theirs = Producer({"bootstrap.servers": cluster_b.bootstrap, "transactional.id": own, "log_level": 0})
    async with connected(cluster_b) as cluster:
        writer = TransactionalWriter(cluster, own)
        await writer.begin()
        await writer.write(topic, 0, [(b"k", b"ours")])
        await asyncio.to_thread(theirs.init_transactions, SOON)
        with pytest.raises(Fenced):
            await writer.write(topic, 0, [(b"k", b"stale")])
        theirs.begin_transaction()
        theirs.produce(topic, b"theirs", b"k")
        await asyncio.to_thread(theirs.flush, SOON)
        assert len(stored(cluster_b, topic, "read_uncommitted")) == 2, "the other producer's transaction is open"
        await writer.begin()
        with pytest.raises(KafkaException):
            await asyncio.to_thread(theirs.commit_transaction, SOON)
        await writer.write(topic, 0, [(b"k", b"ours again")])
    assert stored(cluster_b, topic) == [(b"k", b"ours"), (b"k", b"ours again")]


async def test_writer_replaced_while_writing(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> None:
    """Each write is stored completely or not at all, and never after the successor's first record."""
    topic, own = cluster_b.create_topic(unique("log")), unique("id")
    async with connected(cluster_b) as cluster, connected(cluster_b) as other:
        old, new = TransactionalWriter(cluster, own), TransactionalWriter(other, own)
        await old.begin()
        done = 0

        async def write_on() -> None:
            nonlocal done
            while True:
                await old.write(topic, 0, pairs(f"old-{done}", 3, size=200_000))
                done += 1

        writing = asyncio.create_task(write_on())
        await until(lambda: done >= 2, SOON, "the old writer writes")
        await new.begin()
        await new.write(topic, 0, [(b"new", b"")])
        with pytest.raises(Fenced):
            await writing
    keys = [key for key, _ in stored(cluster_b, topic)]
    assert keys[-1] == b"new"
    assert keys[:-1] in (
        [b"old-%d-%d" % (n, m) for n in range(written) for m in range(3)] for written in (done, done + 1)
    )


@pytest.mark.long  # the test below; a restart: test_control_producer.py
async def test_broker_restart_loses_and_repeats_nothing(breakable: KafkaCluster, unique: Callable[[str], str]) -> None:
    kafka, topic = breakable, breakable.create_topic(unique("log"))
    async with connected(kafka) as cluster:
        writer = TransactionalWriter(cluster, unique("id"))
        await writer.begin()
        await writer.write(topic, 0, pairs("before", 2))
        kafka.broker(1).restart()
        await writer.write(topic, 0, pairs("after", 2))
        kafka.broker(1).kill()
        waiting = asyncio.create_task(writer.write(topic, 0, pairs("during", 2)))
        kafka.broker(1).start()
        await waiting
    assert [key for key, _ in stored(kafka, topic)] == [
        b"%s-%d" % (when, number) for when in (b"before", b"after", b"during") for number in range(2)
    ]


async def test_broker_killed_while_writing_stores_each_write_at_most_once(
    breakable: KafkaCluster, unique: Callable[[str], str]
) -> None:
    kafka, topic = breakable, breakable.create_topic(unique("log"))
    written: list[int] = []
    failed: list[int] = []

    def more_than(before: int) -> bool:
        return len(written) >= before + 3

    async with connected(kafka) as cluster:
        writer = TransactionalWriter(cluster, unique("id"))
        await writer.begin()
        stop = asyncio.Event()

        async def write_on() -> None:
            number = 0
            while not stop.is_set():
                try:
                    await writer.write(topic, 0, pairs(str(number), 3, size=100_000))
                    written.append(number)
                except Fenced:
                    raise
                except ClusterError:
                    failed.append(number)
                number += 1

        writing = asyncio.create_task(write_on())
        for _ in range(2):
            await until(partial(more_than, len(written)), SOON, "writes work")
            kafka.broker(1).kill()
            kafka.broker(1).start()
            await asyncio.to_thread(kafka.broker(1).wait_ready)
        await until(partial(more_than, len(written)), SOON, "writes work again")
        stop.set()
        await writing
    found = [key for key, _ in stored(kafka, topic)]
    whole = [int(key.split(b"-")[0]) for key in found[::3]]
    assert found == [b"%d-%d" % (number, part) for number in whole for part in range(3)], "whole writes, in order"
    assert whole == sorted(set(whole)), "each write is stored once"
    assert set(written) <= set(whole) <= set(written) | set(failed)


async def test_failed_write_leaves_no_open_transaction(breakable: KafkaCluster, unique: Callable[[str], str]) -> None:
    """The broker hangs for longer than a write is retried; the next write resolves the previous transaction."""
    kafka, topic = breakable, breakable.create_topic(unique("log"))
    async with connected(kafka, request_timeout_ms=1_000) as cluster:
        writer = TransactionalWriter(cluster, unique("id"), timeout_ms=30_000)
        await writer.begin()
        await writer.write(topic, 0, pairs("first", 1))
        impatient = TransactionalWriter(cluster, unique("impatient"), timeout_ms=2_000)
        await impatient.begin(timeout_ms=30_000)
        freeze(kafka.broker(1).process)
        try:
            with pytest.raises(ClusterError) as caught:
                await impatient.write(topic, 0, pairs("lost", 1))
            assert caught.value.retriable
            cancelled = asyncio.create_task(writer.write(topic, 0, pairs("cancelled", 1)))
            await asyncio.sleep(0)
            cancelled.cancel()
        finally:
            thaw(kafka.broker(1).process)
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        last = await writer.write(topic, 0, pairs("last", 1))
        found = [key for key, _ in stored(kafka, topic)]
        assert found == [b"first-0", b"last-0"]
        assert last > 0


async def test_large_write(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> None:
    topic, own = cluster_b.create_topic(unique("log")), unique("id")
    wanted = pairs("many", 2_000, size=1_000)
    async with connected(cluster_b) as cluster:
        writer = TransactionalWriter(cluster, own)
        await writer.begin()
        assert await writer.write(topic, 0, wanted) == 1_999
        assert await writer.write(topic, 0, [(b"next", b"")]) == 2_001
    assert stored(cluster_b, topic) == [*wanted, (b"next", b"")]


async def test_read_committed_readers_see_whole_writes_immediately(
    cluster_b: KafkaCluster, unique: Callable[[str], str]
) -> None:
    topic, own = cluster_b.create_topic(unique("log")), unique("id")
    at_once, written = 7, 0
    seen: list[int] = []
    async with connected(cluster_b) as cluster, connected(cluster_b) as reading:
        writer = TransactionalWriter(cluster, own)
        await writer.begin()

        async def read_end() -> None:
            while written < 20:
                log = CompactedLog(reading, topic, isolation=IsolationLevel.READ_COMMITTED)
                least = written * at_once
                seen.append(len([record async for record in log.read_to_end()]))
                assert seen[-1] >= least, "records of a finished write are before the end offset"

        looking = asyncio.create_task(read_end())

        def read_all_or_ended(records: int) -> bool:
            return looking.done() or records in seen

        while written < 20:
            await writer.write(topic, 0, pairs(str(written), at_once, size=200_000))  # two records per batch
            written += 1
            if written in (5, 10, 15):  # some reads happen between writes, however slow they are
                await until(partial(read_all_or_ended, written * at_once), SOON, "everything is read")
        await looking
    assert {count % at_once for count in seen} == {0}
    assert {5 * at_once, 10 * at_once, 15 * at_once} <= set(seen)


@pytest.mark.parametrize("version", VERSIONS)
async def test_rejected_write_is_aborted(cluster_of: ClusterOf, unique: Callable[[str], str], version: str) -> None:
    """Aborted immediately, since read_committed readers wait for open transactions."""
    kafka = cluster_of(version)
    topic = kafka.create_topic(unique("log"))
    async with connected(kafka) as cluster, ControlProducer(cluster) as others:
        writer = TransactionalWriter(cluster, unique("id"))
        await writer.begin()
        with pytest.raises(BrokerError) as caught:
            await writer.write(topic, 0, [(b"small", b"1"), (b"large", bytes(2_000_000))])
        assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
        assert len(stored(kafka, topic, "read_uncommitted")) == 1, "part of it was written"
        await others.send(topic, 0, b"other", b"")
        assert stored(kafka, topic) == [(b"other", b"")]
        await writer.write(topic, 0, [(b"small", b"2")])
        await writer.write(topic, 0, [(b"small", b"3")])
    assert stored(kafka, topic)[1:] == [(b"small", b"2"), (b"small", b"3")]


async def test_expired_transactional_id(start_cluster: StartCluster) -> None:
    """A leader that wrote nothing for a week continues, unless another one has acquired the ID meanwhile."""
    quick = {
        "transactional.id.expiration.ms": "2000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "100",
    }
    kafka = start_cluster(properties=quick)
    topic = kafka.create_topic("log")

    def expired() -> bool:
        states = [one for records in read_topic(kafka.bootstrap, "__transaction_state").values() for one in records]
        return bool(states) and states[-1].content[1] is None

    async with connected(kafka) as cluster, connected(kafka) as other:
        old, new = TransactionalWriter(cluster, ID), TransactionalWriter(other, ID)
        await old.begin()
        await old.write(topic, 0, [(b"k", b"1")])
        await until(lambda: asyncio.to_thread(expired), SOON, "the ID has expired")
        await old.write(topic, 0, [(b"k", b"2")])
        await until(lambda: asyncio.to_thread(expired), SOON, "the ID has expired again")
        await new.begin()
        await new.write(topic, 0, [(b"k", b"3")])
        with pytest.raises(Fenced):
            await old.write(topic, 0, [(b"k", b"stale")])
    assert [value for _, value in stored(kafka, topic)] == [b"1", b"2", b"3"]


@pytest.mark.long  # with one broker: test_broker_killed_while_writing_stores_each_write_at_most_once
async def test_leader_and_coordinator_failure(start_cluster: StartCluster) -> None:
    kafka = start_cluster(brokers=3)
    topic = kafka.create_topic("log", copies=3, config={"min.insync.replicas": "2"})
    async with connected(kafka) as cluster:
        writer = TransactionalWriter(cluster, ID)
        await writer.begin()
        for number in range(40):
            last = await writer.write(topic, 0, [(b"k", b"%d" % number)])
            log = CompactedLog(cluster, topic, isolation=IsolationLevel.READ_COMMITTED)
            found = [record.offset async for record in log.read_to_end()]
            assert found[-1] == last, "the marker is replicated to leader and followers too"
        for number in (1, 2, 3):
            await writer.write(topic, 0, [(b"%d" % number, b"up")])
            kafka.broker(number).kill()
            await writer.write(topic, 0, [(b"%d" % number, b"down")])
            kafka.broker(number).start()
            await asyncio.to_thread(kafka.broker(number).wait_ready, (1, 2, 3))
    assert stored(kafka, topic)[40:] == [(b"%d" % number, state) for number in (1, 2, 3) for state in (b"up", b"down")]


async def test_concurrent_writes_are_serialized(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> None:
    topic, own = cluster_b.create_topic(unique("log"), 2), unique("id")
    async with connected(cluster_b) as cluster:
        writer = TransactionalWriter(cluster, own)
        await writer.begin()
        offsets = await asyncio.gather(*(writer.write(topic, n % 2, pairs(str(n), 2)) for n in range(8)))
    assert offsets == [n // 2 * 3 + 1 for n in range(8)]


async def test_write_before_begin_raises_fenced(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> None:
    async with connected(cluster_b) as cluster:
        with pytest.raises(Fenced, match="not held by this producer"):
            await TransactionalWriter(cluster, unique("id")).write("log", 0, [(b"k", b"v")])
