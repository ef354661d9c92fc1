"""Leases of a node: its custom replication policy fails, while the leader's does not; and lists that change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from mm2.config.settings import FlowSettings
from mm2.core.assignment.source_task_records import SourceTaskRecord
from mm2.core.lanes.source_task_steps import StepKind
from mm2.core.naming.names import TopicPartition
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.node.flow.task_runner import TaskContext
from mm2.node.source.assigned_source_task import AssignedSourceTask
from mm2.node.source.source_offsets import StoredSourceOffsets
from mm2.node.source.source_task_leases import SourceTaskLeases
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


def a_list(source_task: int, *topics: str) -> SourceTaskRecord:
    partitions = frozenset(TopicPartition(topic, 0) for topic in topics)
    return SourceTaskRecord(source_task=source_task, epoch=1, version=len(topics), partitions=partitions)


@asynccontextmanager
async def leasing(
    settings: FlowSettings, kafka: KafkaCluster, topic: str, *lists: SourceTaskRecord
) -> AsyncIterator[TaskContext]:
    """What source tasks need. ``topic``: of the stored offsets. ``lists``: as the leader published them."""
    kafka.create_topic(topic, 1)
    async with connected(kafka) as cluster, ControlProducer(cluster) as producer:
        configs = ConfigStore(settings, cluster, on_change=lambda: None, on_command=lambda _: None)
        configs.source_tasks.records |= {one.source_task: one for one in lists}
        offsets = StoredSourceOffsets(cluster, topic, settings.flow, source_alias=settings.aliases.source, partitions=1)
        yield replace(
            task_context(settings, configs, cluster, node_id="one"),
            topics=WorkerTopics(source_offsets=offsets, status_partitions=1),
            producer=producer,
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
    topics = a_list(0, "moody"), a_list(1, "orders")
    async with leasing(settings, cluster_b, unique("mm2-offsets"), *topics) as context:
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


async def test_a_list_that_changes_while_offsets_are_read_is_granted_later(
    cluster_b: KafkaCluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """Nothing is known yet about its new partitions: whether they have an offset, or copies without one."""
    settings = files.flow(tmp_path, f"B.bootstrap.servers = {cluster_b.bootstrap}\nB.group.id = {unique('group')}\n")
    async with leasing(settings, cluster_b, unique("mm2-offsets"), a_list(1, "orders")) as context:
        leases, task = SourceTaskLeases(context, context.target), AssignedSourceTask(source_task=1, epoch=1)

        def kind() -> StepKind:
            step = leases.next_step(task, 0.0)
            if step.kind is StepKind.FENCE:
                leases.fence(task)
            return step.kind

        try:
            await until(lambda: kind() is StepKind.GRANT, SOON, "earlier owners are fenced")
            leases.note_due(task)
            await leases.refresh([task])
            context.configs.source_tasks.records[1] = a_list(1, "orders", "other")
            leases.grant([task], 0.0)
            assert (task.assigned, task.leased) == (None, frozenset())
            assert kind() is StepKind.GRANT
            leases.note_due(task)
            await leases.refresh([task])
            leases.grant([task], 0.0)
            assert task.leased == {TopicPartition("orders", 0), TopicPartition("other", 0)}
        finally:
            await leases.close()
