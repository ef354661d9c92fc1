"""Runs a source task that routes records one by one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from flows.lane.byte_budget import ByteBudget
from flows.partition.timeouts import TIMEOUTS, Timeouts
from flows.source_task.source_task import SourceTask
from mm2.core.lanes.lease import DeadLettersLease, PartitionLease, RecordRouting
from mm2.core.mirror1.user_class import UserClass
from mm2.core.settings.client import ProduceSettings
from tests.integration.flows.lane import BUFFER, RunningSourceTask, lease_of, unlimited
from tests.lab.cluster import KafkaCluster


@asynccontextmanager
async def routing(
    source: KafkaCluster,
    target: KafkaCluster,
    topic: str,
    partitions: int,
    *,
    handler: UserClass | None = None,
    produce: ProduceSettings | None = None,
    dead_letters: str | None = None,
    timeouts: Timeouts = TIMEOUTS,
) -> AsyncIterator[RunningSourceTask]:
    """Run a source task that routes the records of a topic to the topic of the same name."""
    leases = tuple(
        PartitionLease(topic=topic, partition=number, remote_topic=topic, start_offset=None)
        for number in range(partitions)
    )
    lease = replace(
        lease_of(source, target, leases, produce=produce),
        offsets=None,
        offset_syncs=None,
        routing=RecordRouting(handler=handler),
        dead_letters=None if dead_letters is None else DeadLettersLease(topic=dead_letters),
    )
    budget = ByteBudget(BUFFER)
    runner = SourceTask(lease, budget, unlimited(), timeouts=timeouts)
    runner.start()
    try:
        yield RunningSourceTask(source, target, lease, budget, runner, {topic: topic})
    finally:
        await runner.close()
    assert budget.used == 0
