"""Records written in transactions under an id: all or nothing, and nothing any more by a writer that was replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest
from confluent_kafka import KafkaException, Producer

from mm2.core.client_settings import IsolationLevel
from mm2.kafka.compacted_log import CompactedLog
from mm2.kafka.control_producer import ControlProducer
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import BrokerError, ClusterError
from mm2.kafka.transactional_writer import Fenced, TransactionalWriter
from tests.integration.kafka.clients import connected, freeze, thaw
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster
from tests.lab.history import read_topic
from tests.lab.jars import VERSIONS
from tests.lab.waiting import until

SOON = 60.0  # seconds: broker restarts on a machine that is busy
ID = "connect-cluster-A-mm2"
Pair = tuple[bytes, bytes | None]


def stored(kafka: KafkaCluster, topic: str, isolation: str = "read_committed") -> list[Pair]:
    """Keys and values of a topic with one partition, as the independent client reads them."""
    (records,) = read_topic(kafka.bootstrap, topic, isolation=isolation).values()
    return [(one.content[0] or b"", one.content[1]) for one in records]


def pairs(name: str, count: int, size: int = 10) -> list[Pair]:
    return [(b"%s-%d" % (name.encode(), number), bytes(size)) for number in range(count)]


@pytest.mark.parametrize("version", VERSIONS)
async def test_what_is_written_is_read_and_a_newer_writer_fences(start_cluster: StartCluster, version: str) -> None:
    kafka = start_cluster(version=version)
    topic = kafka.create_topic("log", config={"cleanup.policy": "compact"})
    async with connected(kafka) as cluster, connected(kafka) as other:
        old, new = TransactionalWriter(cluster, ID), TransactionalWriter(other, ID)
        await old.begin()
        assert await old.write(topic, 0, [(b"a", b"1"), (b"b", None)]) == 1
        assert await old.write(topic, 0, [(b"c", b"3")]) == 3, "the commit's marker takes an offset"
        assert await old.write(topic, 0, []) == -1
        assert stored(kafka, topic) == [(b"a", b"1"), (b"b", None), (b"c", b"3")]
        await new.begin()
        assert await new.write(topic, 0, [(b"c", b"4")]) == 5
        for _ in range(2):
            with pytest.raises(Fenced, match=ID):
                await old.write(topic, 0, [(b"c", b"stale")])
        assert await new.write(topic, 0, [(b"d", b"5")]) == 7
        assert stored(kafka, topic)[3:] == [(b"c", b"4"), (b"d", b"5")]
        await old.begin()
        await old.write(topic, 0, [(b"e", b"6")])
        with pytest.raises(Fenced):
            await new.write(topic, 0, [(b"e", b"stale")])
    assert stored(kafka, topic)[5:] == [(b"e", b"6")]


async def test_another_program_fences_and_is_fenced(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> None:
    """One that writes as Java's leader does."""
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
        assert len(stored(cluster_b, topic, "read_uncommitted")) == 2, "their transaction is open"
        await writer.begin()
        with pytest.raises(KafkaException):
            await asyncio.to_thread(theirs.commit_transaction, SOON)
        await writer.write(topic, 0, [(b"k", b"ours again")])
    assert stored(cluster_b, topic) == [(b"k", b"ours"), (b"k", b"ours again")]


async def test_a_writer_that_is_replaced_while_it_writes(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> None:
    """All of a write, or nothing, and nothing behind the successor's first record."""
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
        await until(lambda: done >= 2, SOON, "the old one writes")
        await new.begin()
        await new.write(topic, 0, [(b"new", b"")])
        with pytest.raises(Fenced):
            await writing
    keys = [key for key, _ in stored(cluster_b, topic)]
    assert keys[-1] == b"new"
    assert keys[:-1] in (
        [b"old-%d-%d" % (n, m) for n in range(written) for m in range(3)] for written in (done, done + 1)
    )


async def test_a_restart_in_between_loses_and_repeats_nothing(start_cluster: StartCluster) -> None:
    kafka = start_cluster()
    topic = kafka.create_topic("log")
    async with connected(kafka) as cluster:
        writer = TransactionalWriter(cluster, ID)
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


async def test_killed_while_writing_each_write_is_stored_once_or_failed(start_cluster: StartCluster) -> None:
    kafka = start_cluster()
    topic = kafka.create_topic("log")
    written: list[int] = []
    failed: list[int] = []

    def more_than(before: int) -> bool:
        return len(written) >= before + 3

    async with connected(kafka) as cluster:
        writer = TransactionalWriter(cluster, ID)
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
        for _ in range(3):
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
    assert whole == sorted(set(whole)), "each once"
    assert set(written) <= set(whole) <= set(written) | set(failed)


async def test_a_write_that_fails_leaves_no_transaction_open(start_cluster: StartCluster) -> None:
    """A broker that hangs for longer than a write tries; the next write settles what became of the one before."""
    kafka = start_cluster()
    topic = kafka.create_topic("log")
    async with connected(kafka, request_timeout_ms=1_000) as cluster:
        writer = TransactionalWriter(cluster, ID, timeout_ms=30_000)
        await writer.begin()
        await writer.write(topic, 0, pairs("first", 1))
        impatient = TransactionalWriter(cluster, "impatient", timeout_ms=2_000)
        await impatient.begin()
        freeze(kafka.broker(1))
        try:
            with pytest.raises(ClusterError) as caught:
                await impatient.write(topic, 0, pairs("lost", 1))
            assert caught.value.retriable
            cancelled = asyncio.create_task(writer.write(topic, 0, pairs("cancelled", 1)))
            await asyncio.sleep(0)
            cancelled.cancel()
        finally:
            thaw(kafka.broker(1))
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        last = await writer.write(topic, 0, pairs("last", 1))
        found = [key for key, _ in stored(kafka, topic)]
        assert found == [b"first-0", b"last-0"]
        assert last > 0


async def test_much_at_once(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> None:
    topic, own = cluster_b.create_topic(unique("log")), unique("id")
    wanted = pairs("many", 2_000, size=1_000)
    async with connected(cluster_b) as cluster:
        writer = TransactionalWriter(cluster, own)
        await writer.begin()
        assert await writer.write(topic, 0, wanted) == 1_999
        assert await writer.write(topic, 0, [(b"next", b"")]) == 2_001
    assert stored(cluster_b, topic) == [*wanted, (b"next", b"")]


async def test_readers_of_what_is_committed_see_all_or_nothing_and_at_once(
    cluster_b: KafkaCluster, unique: Callable[[str], str]
) -> None:
    topic, own = cluster_b.create_topic(unique("log")), unique("id")
    at_once, written = 7, 0
    seen: list[int] = []
    async with connected(cluster_b) as cluster, connected(cluster_b) as reading:
        writer = TransactionalWriter(cluster, own)
        await writer.begin()

        async def look() -> None:
            while written < 20:
                log = CompactedLog(reading, topic, isolation=IsolationLevel.READ_COMMITTED)
                least = written * at_once
                seen.append(len([record async for record in log.read_to_end()]))
                assert seen[-1] >= least, "what a finished write wrote is before the end"

        looking = asyncio.create_task(look())
        while written < 20:
            await writer.write(topic, 0, pairs(str(written), at_once, size=200_000))  # two a batch
            written += 1
        await looking
    assert {count % at_once for count in seen} == {0}
    assert len(set(seen)) > 2, "it looked in between"


@pytest.mark.parametrize("version", VERSIONS)
async def test_what_the_broker_refuses_is_aborted(start_cluster: StartCluster, version: str) -> None:
    """At once: read_committed readers wait for transactions that are open."""
    kafka = start_cluster(version=version)
    topic = kafka.create_topic("log")
    async with connected(kafka) as cluster, ControlProducer(cluster) as others:
        writer = TransactionalWriter(cluster, ID)
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


async def test_an_id_that_the_broker_forgot(start_cluster: StartCluster) -> None:
    """A leader with nothing to write for a week goes on, unless another has taken the id meanwhile."""
    quick = {
        "transactional.id.expiration.ms": "500",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "100",
    }
    kafka = start_cluster(properties=quick)
    topic = kafka.create_topic("log")

    def forgotten() -> bool:
        states = [one for records in read_topic(kafka.bootstrap, "__transaction_state").values() for one in records]
        return bool(states) and states[-1].content[1] is None

    async with connected(kafka) as cluster, connected(kafka) as other:
        old, new = TransactionalWriter(cluster, ID), TransactionalWriter(other, ID)
        await old.begin()
        await old.write(topic, 0, [(b"k", b"1")])
        await until(lambda: asyncio.to_thread(forgotten), SOON, "the id is forgotten")
        await old.write(topic, 0, [(b"k", b"2")])
        await until(lambda: asyncio.to_thread(forgotten), SOON, "the id is forgotten again")
        await new.begin()
        await new.write(topic, 0, [(b"k", b"3")])
        with pytest.raises(Fenced):
            await old.write(topic, 0, [(b"k", b"stale")])
    assert [value for _, value in stored(kafka, topic)] == [b"1", b"2", b"3"]


async def test_leader_and_coordinator_that_die_are_followed(start_cluster: StartCluster) -> None:
    kafka = start_cluster(brokers=3)
    topic = kafka.create_topic("log", copies=3, config={"min.insync.replicas": "2"})
    async with connected(kafka) as cluster:
        writer = TransactionalWriter(cluster, ID)
        await writer.begin()
        for number in range(40):
            last = await writer.write(topic, 0, [(b"k", b"%d" % number)])
            log = CompactedLog(cluster, topic, isolation=IsolationLevel.READ_COMMITTED)
            found = [record.offset async for record in log.read_to_end()]
            assert found[-1] == last, "the marker, too, has come from the coordinator to leader and followers"
        for number in (1, 2, 3):
            await writer.write(topic, 0, [(b"%d" % number, b"up")])
            kafka.broker(number).kill()
            await writer.write(topic, 0, [(b"%d" % number, b"down")])
            kafka.broker(number).start()
            await asyncio.to_thread(kafka.broker(number).wait_ready, (1, 2, 3))
    assert stored(kafka, topic)[40:] == [(b"%d" % number, state) for number in (1, 2, 3) for state in (b"up", b"down")]


async def test_writes_side_by_side_take_turns(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> None:
    topic, own = cluster_b.create_topic(unique("log"), 2), unique("id")
    async with connected(cluster_b) as cluster:
        writer = TransactionalWriter(cluster, own)
        await writer.begin()
        offsets = await asyncio.gather(*(writer.write(topic, n % 2, pairs(str(n), 2)) for n in range(8)))
    assert offsets == [n // 2 * 3 + 1 for n in range(8)]


async def test_who_never_began_may_not_write(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> None:
    async with connected(cluster_b) as cluster:
        with pytest.raises(Fenced, match="not ours"):
            await TransactionalWriter(cluster, unique("id")).write("log", 0, [(b"k", b"v")])
