"""The history of queries on a broker: from the owner of a source task through the leader, over a change of both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mm2.config.settings import FlowSettings
from mm2.core.coordination.query_history_records import QueryHistories
from mm2.core.lanes.lease import LaneQuery, PartitionLease, SourceTaskLease
from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.settings.row_query import RowQuery
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.kafka.logs.transaction_coordinator import Fenced
from mm2.node.leader.config_writer import ConfigWriter
from mm2.node.leader.query_history_writer import QueryHistoryWriter
from mm2.node.source.query_use_reporter import REPEAT_EVERY_S, QueryUseReporter
from mm2.node.store.config_store import ConfigStore
from mm2.node.store.status_store import StatusStore
from tests.integration.kafka.clients import connected
from tests.lab.cluster import KafkaCluster
from tests.lab.history import read_topic
from tests.lab.waiting import until
from tests.unit.config import files
from tests.unit.node.engine.lane_boards import source_task_lease

SOON = 60.0  # seconds
ORDERS = TopicPartition("orders", 0)


def lease(offset: int, digest: str | None) -> SourceTaskLease:
    """Return the lease of a source task that copies orders-0 from ``offset`` on."""
    query = None
    if digest is not None:
        action = RowQuery(columns={}, condition="a", text=f"SELECT * FROM records WHERE {digest}", sha256=digest * 64)
        query = LaneQuery(name="drop", action=action)
    partition = PartitionLease(topic="orders", partition=0, remote_topic="A.orders", start_offset=offset)
    return replace(source_task_lease(3), partitions=(partition,), query=query)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of the flow that reports the queries of a source task, and can lead."""

    configs: ConfigStore
    statuses: StatusStore
    reporter: QueryUseReporter
    producer: ControlProducer
    config_writer: ConfigWriter
    terms: list[QueryHistoryWriter]

    def entries(self) -> list[tuple[int, str | None]]:
        return _entries(self.configs.query_histories)

    async def report(self, now: float) -> None:
        self.reporter.report(now)
        assert await self.producer.flush(SOON)

    async def lead(self) -> asyncio.Task[None]:
        """Start a term as leader."""
        await self.config_writer.begin()
        await self.configs.catch_up()
        self.terms.append(
            QueryHistoryWriter(Flow("A", "B"), self.configs, self.statuses.query_uses, self.config_writer.put)
        )
        return asyncio.create_task(self.terms[-1].run())


def _entries(histories: QueryHistories) -> list[tuple[int, str | None]]:
    return [(one.offset, one.sha256 and one.sha256[0]) for one in histories.of(ORDERS).entries]


@asynccontextmanager
async def running_node(settings: FlowSettings, cluster: Cluster, transactional_id: str) -> AsyncIterator[Node]:
    configs = ConfigStore(settings, cluster, on_change=lambda: None, on_command=lambda _: None)
    await configs.read_to_end()
    terms: list[QueryHistoryWriter] = []

    def reported() -> None:
        for one in terms:
            one.take_reported()

    statuses = StatusStore(settings.flow, settings.storage.statuses.name, on_query_uses=reported)
    config_writer = ConfigWriter(cluster, configs.topic, transactional_id)
    async with ControlProducer(cluster) as producer:
        reporter = QueryUseReporter(settings, producer, 1, configs.query_histories, lambda: True)
        following = [asyncio.create_task(configs.follow()), asyncio.create_task(statuses.follow(cluster))]
        try:
            yield Node(
                configs=configs,
                statuses=statuses,
                reporter=reporter,
                producer=producer,
                config_writer=config_writer,
                terms=terms,
            )
        finally:
            for one in following:
                one.cancel()
            await asyncio.wait(following)


async def stopped(leading: asyncio.Task[None]) -> None:
    leading.cancel()
    await asyncio.wait([leading])


async def test_entries_survive_the_change_of_leader_and_owner(
    cluster_b: KafkaCluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    configs, statuses = cluster_b.create_topic(unique("configs")), cluster_b.create_topic(unique("status"))
    settings = files.flow(tmp_path, f"B.config.storage.topic = {configs}\nB.status.storage.topic = {statuses}\n")
    own = unique("id")
    async with (
        connected(cluster_b) as first_client,
        connected(cluster_b) as second_client,
        running_node(settings, first_client, own) as first,
    ):
        leading = await first.lead()
        first.reporter.granted(lease(100, "a"))
        await first.report(0.0)
        await until(lambda: first.entries() == [(100, "a")], SOON, "the first query is recorded")
        await first.report(REPEAT_EVERY_S)  # it is confirmed: nothing is written
        await stopped(leading)
        first.reporter.granted(lease(250, "b"))  # no leader takes this report, and another owner replaces it
        await first.report(REPEAT_EVERY_S + 1)
        async with running_node(settings, second_client, own) as second:
            second.reporter.granted(lease(300, None))
            await second.report(0.0)
            await until(lambda: len(second.statuses.query_uses.uses) == 3, SOON, "all reports are read")
            leading = await second.lead()
            everything = [(100, "a"), (250, "b"), (300, None)]
            await until(lambda: second.entries() == everything, SOON, "the new leader adds both")
            await until(lambda: first.entries() == everything, SOON, "the former leader reads them")
            with pytest.raises(Fenced):
                await first.config_writer.put([(b"mm2-query-history-orders-0", b'{"id":null,"entries":[]}')])
            await stopped(leading)
    (reports,) = read_topic(cluster_b.bootstrap, statuses).values()
    assert [one.content[0] for one in reports] == [b"mm2-query-use-3"] * 3
    stored = QueryHistories()
    (records,) = read_topic(cluster_b.bootstrap, configs).values()
    for one in records:
        stored.take(*one.content[:2])
    assert _entries(stored) == everything
    assert {one.text for one in stored.texts.values()} == {
        "SELECT * FROM records WHERE a",
        "SELECT * FROM records WHERE b",
    }
