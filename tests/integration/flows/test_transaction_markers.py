"""Exactly once although Kafka 4 ends transactions without a marker in partitions that have no leader just then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from mm2.core.lanes.lease import TransactionsLease
from tests.integration.flows.lane import COPIED, RunningSourceTask, acquired, copying
from tests.lab.cluster import ADMIN_TIMEOUT, KafkaCluster
from tests.lab.freezing import frozen
from tests.lab.history import read_topic
from tests.lab.records import plain, write
from tests.lab.waiting import until

Unique = Callable[[str], str]

PARTITIONS = 3
LEADERLESS = 12.0  # seconds until a killed broker has lost its leaderships, on a busy machine
INTERVAL = 6.0  # seconds from the first record of a transaction to its commit, and then for late answers


class OnePartition:
    """Copies from ``source`` to one remote partition that exists only on ``leader``, which coordinates nothing."""

    def __init__(self, source: KafkaCluster, target: KafkaCluster, source_task: RunningSourceTask, id_: str) -> None:
        self._source, self._target = source, target
        ((self._topic, self._remote),) = source_task.remote.items()
        coordinator = target.transaction_coordinator(id_)
        leaders = {number: target.leader(self._remote, number) for number in range(PARTITIONS)}
        self.number, self.leader = next(
            (number, leader) for number, leader in leaders.items() if leader is not coordinator
        )

    def write(self, first: int) -> None:
        """Write a hundred records."""
        records = (replace(one, partition=self.number) for one in plain(100, first=first))
        write(self._source.bootstrap, self._topic, records)

    async def lose_leader_with_records_in_flight(self) -> None:
        """Return when the transaction with them is aborted, and the leader is back."""
        with frozen(self.leader.process):
            self.write(100)
            await asyncio.sleep(2 * INTERVAL + 2)
            await asyncio.to_thread(self.leader.kill)
        await asyncio.to_thread(self.leader.restart)

    def read(self, isolation: str) -> list[bytes | None]:
        return [one.key for one in read_topic(self._target.bootstrap, self._remote, isolation=isolation)[self.number]]

    def has_no_leader(self) -> bool:
        known = self._target.admin.list_topics(self._remote, timeout=ADMIN_TIMEOUT).topics[self._remote]
        return known.partitions[self.number].leader < 0


@pytest.fixture(scope="module")
def three() -> Iterator[KafkaCluster]:
    with KafkaCluster("target", brokers=3) as cluster:
        yield cluster


@pytest.fixture
def target(three: KafkaCluster) -> KafkaCluster:
    """Three brokers that run; a test may kill one."""
    return three.heal()


@asynccontextmanager
async def one_partition(
    source: KafkaCluster, target: KafkaCluster, unique: Unique
) -> AsyncIterator[tuple[RunningSourceTask, OnePartition]]:
    topic, transactional_id = source.create_topic(unique("unmarked"), PARTITIONS), unique("id")
    producer = await acquired(target, transactional_id)
    async with copying(
        source,
        target,
        {topic: PARTITIONS},
        remote_copies=1,
        producer=producer,
        transactions=TransactionsLease(interval_ms=round(INTERVAL * 1000)),
        flush_interval_ms=600_000,  # a flush commits
    ) as source_task:
        yield source_task, OnePartition(source, target, source_task, transactional_id)


@pytest.mark.long  # those that were aborted: below
@pytest.mark.parametrize(
    "after",
    [  # an abort is the hardest: the next transaction, which is to mark the records as committed, is aborted itself
        "nothing",
        "records",
        "an abort",
    ],
)
async def test_records_committed_while_their_partition_had_no_leader_are_readable(
    cluster_a: KafkaCluster, target: KafkaCluster, unique: Unique, after: str
) -> None:
    async with one_partition(cluster_a, target, unique) as (source_task, one):
        one.write(0)
        await until(lambda: len(one.read("read_uncommitted")) == 100, COPIED, "they are in an open transaction")
        await asyncio.to_thread(one.leader.kill)
        await until(one.has_no_leader, LEADERLESS, "their partition has no leader")
        topic = next(iter(source_task.remote))
        await until(lambda: source_task.partition(topic, one.number).position == 100, COPIED, "they are committed")
        assert one.has_no_leader()
        await asyncio.to_thread(one.leader.restart)
        if after == "an abort":
            await asyncio.sleep(2)  # the partition is in another transaction, which is to commit them
            await one.lose_leader_with_records_in_flight()
        elif after == "records":
            one.write(100)
        wanted = 100 if after == "nothing" else 200
        await until(lambda: len(one.read("read_committed")) == wanted, COPIED, "they are readable")
        assert (await source_task.copied(topic)).exact


async def test_records_aborted_while_their_partition_had_no_leader_are_not_readable(
    cluster_a: KafkaCluster, target: KafkaCluster, unique: Unique
) -> None:
    async with one_partition(cluster_a, target, unique) as (source_task, one):
        one.write(0)
        await until(lambda: len(one.read("read_uncommitted")) == 100, COPIED, "they are in an open transaction")
        await one.lose_leader_with_records_in_flight()
        assert (await source_task.copied(next(iter(source_task.remote)))).exact
