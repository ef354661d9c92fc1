"""Leases of source tasks with a query, and what becomes of a query that Spark rejects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from mm2.core.assignment.source_task_records import SourceTaskRecord
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import TopicPartition
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.node.engine.lease_service import Wake
from mm2.node.source.source_offsets import StoredSourceOffsets
from mm2.node.source.source_task_runner import SourceTaskRunner
from mm2.node.status.partition_ownership import PartitionOwnership
from mm2.node.store.config_store import ConfigStore
from mm2.node.store.worker_topics import WorkerTopics
from tests.integration.kafka.clients import connected
from tests.lab.cluster import KafkaCluster
from tests.lab.tasks import task_context
from tests.lab.waiting import until
from tests.unit.config import files
from tests.unit.node.engine.lane_boards import ended, starts

SOON = 30.0  # seconds
QUERY = "mm2.sql.mask.topics = orders\nmm2.sql.mask.query = SELECT fo(value) AS value FROM records\n"
MESSAGE = "query mask cannot run: no function fo"
ORDERS, OTHER = TopicPartition("orders", 0), TopicPartition("other", 0)


async def test_only_topics_of_the_query_are_leased_and_fail_if_spark_rejects_it(
    cluster_b: KafkaCluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    settings = files.flow(
        tmp_path,
        f"B.bootstrap.servers = {cluster_b.bootstrap}\nB.group.id = {unique('group')}\n"
        f"mm2.offset.translation = compatible\ntasks.max = 4\n{QUERY}",
    )
    topic = cluster_b.create_topic(unique("mm2-offsets"), 1)
    async with connected(cluster_b) as cluster, ControlProducer(cluster) as producer:
        configs = ConfigStore(settings, cluster, on_change=lambda: None, on_command=lambda _: None)
        for source_task in (0, 4):
            record = SourceTaskRecord(
                source_task=source_task,
                epoch=1,
                version=1,
                partitions=frozenset({ORDERS, OTHER}),
                query="mask" if source_task else None,
            )
            configs.source_tasks.records[source_task] = record
        offsets = StoredSourceOffsets(cluster, topic, settings.flow, source_alias=settings.aliases.source, partitions=1)
        context = replace(
            task_context(settings, configs, cluster, node_id="one"),
            topics=WorkerTopics(source_offsets=offsets, status_partitions=1),
            producer=producer,
        )
        board = context.lease_service.board
        runner = SourceTaskRunner(context, lambda: None)
        runner.assign({0: 1, 4: 1}, "m-1")
        running = asyncio.create_task(runner.run())
        try:
            await until(lambda: len(starts(board, 0.0)) == 2, SOON, "both lanes are ordered")
            (plain,) = board.lane_orders(0).source_tasks
            (sql,) = board.lane_orders(1).source_tasks
            assert plain.query is None
            assert sql.query is not None
            assert sql.query.name == "mask"
            assert [[one.topic for one in lease.partitions] for lease in (plain, sql)] == [["other"], ["orders"]]
            assert [start.query for start in starts(board, 0.0) if start.lane == 1] == [sql.query]

            ended(board, 1, "no function fo", refused=True)
            context.lease_service.wake(Wake.REPORT)
            await until(lambda: MESSAGE in runner.reasons(), SOON, "the message is reported")
            states = {one.id.rpartition("-")[2]: (one.state, one.error) for one in runner.status()}
            assert states == {"0": (TaskState.WAITING, "waiting for a lane to start"), "4": (TaskState.FAILED, MESSAGE)}

            configs.source_tasks.records[0] = replace(
                configs.source_tasks.records[0], version=2, partitions=frozenset({OTHER})
            )
            configs.source_tasks.records[4] = replace(
                configs.source_tasks.records[4], version=2, partitions=frozenset({ORDERS})
            )
            context.lease_service.wake(Wake.CONFIGS)

            def owners() -> dict[TopicPartition, tuple[TaskState, str | None, int | None]]:
                found = PartitionOwnership(node_id="one", hosted=runner.hosted).partitions()
                return {partition: (one.state, one.error, one.source_task) for partition, one in found.items()}

            expected = {ORDERS: (TaskState.FAILED, MESSAGE, 4), OTHER: (TaskState.WAITING, None, 0)}
            await until(lambda: owners() == expected, SOON, "the new lists are in use")
            assert [one.partitions for one in board.lane_orders(1).source_tasks] == [sql.partitions]
            assert [start.lane for start in starts(board, 1_000.0)] == [0]

            assert runner.restart(4)
            await until(lambda: len(starts(board, 1_000.0)) == 2, SOON, "a restart tries again")
            await until(lambda: MESSAGE not in runner.reasons(), SOON, "the message is not reported any longer")
        finally:
            running.cancel()
            await asyncio.wait([running])
