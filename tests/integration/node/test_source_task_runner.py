"""Source tasks of a node whose custom replication policy fails, while the leader's does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mm2.core.assignment.source_task_records import SourceTaskRecord
from mm2.core.naming.names import TopicPartition
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.node.source.source_offsets import StoredSourceOffsets
from mm2.node.source.source_task_runner import SourceTaskRunner
from mm2.node.store.config_store import ConfigStore
from mm2.node.store.worker_topics import WorkerTopics
from tests.integration.kafka.clients import connected
from tests.integration.node.user_filters import MoodyPolicy
from tests.lab.cluster import KafkaCluster
from tests.lab.tasks import task_context
from tests.lab.waiting import until
from tests.unit.config import files

SOON = 30.0  # seconds
CLASS = f"{MoodyPolicy.__module__}:{MoodyPolicy.__name__}"


def a_list(source_task: int, topic: str) -> SourceTaskRecord:
    return SourceTaskRecord(
        source_task=source_task, epoch=1, version=1, partitions=frozenset({TopicPartition(topic, 0)})
    )


async def test_an_error_of_the_policy_ends_no_other_source_task(
    cluster_b: KafkaCluster, unique: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MoodyPolicy, "moody", True)
    settings = files.flow(
        tmp_path,
        f"B.bootstrap.servers = {cluster_b.bootstrap}\nB.group.id = {unique('group')}\n"
        f"replication.policy.class = {CLASS}\nmm2.offset.translation = compatible\n",
    )
    topic = cluster_b.create_topic(unique("mm2-offsets"), 1)
    async with connected(cluster_b) as cluster, ControlProducer(cluster) as producer:
        configs = ConfigStore(settings, cluster, on_change=lambda: None, on_command=lambda _: None)
        configs.source_tasks.records |= {0: a_list(0, "moody"), 1: a_list(1, "orders")}
        offsets = StoredSourceOffsets(cluster, topic, settings.flow, source_alias=settings.aliases.source, partitions=1)
        context = replace(
            task_context(settings, configs, cluster, node_id="one"),
            topics=WorkerTopics(source_offsets=offsets, status_partitions=1),
            producer=producer,
        )
        board = context.lease_service.board
        runner = SourceTaskRunner(context, lambda: None)
        runner.assign({0: 1, 1: 1}, "m-1")
        running = asyncio.create_task(runner.run())
        try:
            await until(lambda: running.done() or board.lane_has((settings.flow, 1)), SOON, "the other one has a lease")
            assert not running.done()
            await until(lambda: "not today" in str(runner.reasons()), SOON, "the error is reported")
            assert not board.lane_has((settings.flow, 0))
            MoodyPolicy.moody = False
            await until(lambda: board.lane_has((settings.flow, 0)), SOON, "it has a lease as soon as the policy works")
            await until(lambda: not runner.reasons(), SOON, "the error is not reported any longer")
        finally:
            running.cancel()
            await asyncio.wait([running])
