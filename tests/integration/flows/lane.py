"""Runs a source task between two real clusters in this process, as a lane in a Spark worker does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from flows.lane.byte_budget import ByteBudget
from flows.lane.lease_deadline import LeaseDeadline
from flows.partition.timeouts import TIMEOUTS, Timeouts
from flows.source.fetch_limit import FetchLimit
from flows.source_task.source_task import SourceTask
from mm2.core.lanes.accumulated_progress import AccumulatedProgress
from mm2.core.lanes.lease import (
    DeadLettersLease,
    ExactOffsetsLease,
    LossesLease,
    OffsetsLease,
    OffsetSyncsLease,
    PartitionLease,
    SourceTaskLease,
    TaskProducer,
    TransactionsLease,
)
from mm2.core.lanes.losses import OnDataLoss
from mm2.core.lanes.progress_reports import PartitionProgress, SourceTaskProgress
from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.offsets.leader_epochs import EpochStarts
from mm2.core.settings.client import ClientSettings, FetchSettings, ProduceSettings
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.clock import session_clock
from mm2.kafka.logs.transaction_coordinator import TransactionCoordinator
from mm2.kafka.retrying import retried
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.verify import Verdict, wait_until_copied
from tests.lab.waiting import until

COPIED = 60.0  # seconds for a test's records to be copied on a busy machine
DRAINED = 20.0
BUFFER = 16 * 1024 * 1024
OFFSETS_PARTITIONS = 3
FLUSH_MS = 300
QUICK_MS = 300  # maximum backoff, so that fault tests wait less


def unlimited() -> LeaseDeadline:
    """The deadline of a lease that never ends."""
    deadline = LeaseDeadline()
    deadline.renew(session_clock(), float("inf"))
    return deadline


def client(cluster: KafkaCluster, alias: str) -> ClientSettings:
    return ClientSettings(
        bootstrap_servers=tuple(cluster.bootstrap.split(",")),
        alias=alias,
        retry_backoff_max_ms=QUICK_MS,
        reconnect_backoff_max_ms=QUICK_MS,
    )


async def acquired(target: KafkaCluster, transactional_id: str) -> TaskProducer:
    """Return a producer of the transactional id, as a node acquires it for a source task."""
    async with Cluster(client(target, "B")) as cluster:
        init = TransactionCoordinator(cluster, transactional_id, timeout_ms=60_000, purpose="test").init
        return TaskProducer(transactional_id, *await retried(init, cluster.settings, timeout_ms=30_000))


@dataclass
class RunningSourceTask:
    """The lease and runner of a source task, with queries for tests."""

    source: KafkaCluster
    target: KafkaCluster
    lease: SourceTaskLease
    budget: ByteBudget
    runner: SourceTask
    remote: dict[str, str] = field(default_factory=dict)
    accumulated: AccumulatedProgress | None = None

    @property
    def offsets_topic(self) -> str:
        assert self.lease.offsets is not None
        return self.lease.offsets.topic

    def reported(self) -> SourceTaskProgress:
        """Return the progress of the source task, merged from all reports so far."""
        news = self.runner.news()
        if self.accumulated is None:
            self.accumulated = AccumulatedProgress(news)
        self.accumulated.take(news)
        return self.accumulated.progress

    def partition(self, topic: str, partition: int = 0) -> PartitionProgress:
        return next(one for one in self.reported().partitions if (one.topic, one.partition) == (topic, partition))

    @property
    def batches(self) -> dict[str, int]:
        """Number of batches by the reason for rebuilding them; '' for those passed through."""
        return {count.reason: count.batches for count in self.runner.progress().batches}

    async def copied(self, topic: str, *, isolation: str = "read_committed", repeats_allowed: bool = False) -> Verdict:
        """Wait until the remote topic equals the source topic, and return the verdict."""
        return await asyncio.to_thread(
            wait_until_copied,
            (self.source.bootstrap, topic),
            (self.target.bootstrap, self.remote[topic]),
            COPIED,
            isolation=isolation,
            repeats_allowed=repeats_allowed,
        )

    async def caught_up(self, topic: str) -> None:
        """Wait until no partition has lag."""

        def none_lags() -> bool:
            ours = [one for one in self.reported().partitions if one.topic == topic]
            return bool(ours) and all(one.position == one.end_offset >= 0 and not one.lag_seconds for one in ours)

        await until(none_lags, COPIED, f"{topic} has no lag")

    def skip(self, offset: int) -> None:
        """Ask to skip what cannot be copied at this offset of every partition."""
        partitions = tuple(replace(one, skip_offset=offset) for one in self.lease.partitions)
        self.runner.apply(replace(self.lease, partitions=partitions))

    async def drained(self) -> dict[TopicPartition, int | None]:
        """Drain the source task and return its stored offsets."""
        self.runner.drain()
        await until(lambda: self.reported().drained, DRAINED, "the source task is drained")
        assert by_place(self.reported()) == by_place(self.runner.progress()), (
            "the merged reports equal the source task's progress"
        )
        return {place: one.stored for place, one in by_place(self.reported()).items()}


def by_place(source_task: SourceTaskProgress) -> dict[TopicPartition, PartitionProgress]:
    return {TopicPartition(one.topic, one.partition): one for one in source_task.partitions}


def lease_of(
    source: KafkaCluster,
    target: KafkaCluster,
    partitions: tuple[PartitionLease, ...],
    *,
    fetch: FetchSettings | None = None,
    produce: ProduceSettings | None = None,
    flush_interval_ms: int = FLUSH_MS,
    lag_max: int = 100,
) -> SourceTaskLease:
    a, b = client(source, "A"), client(target, "B")
    return SourceTaskLease(
        flow=Flow("A", "B"),
        source_task=0,
        epoch=1,
        source=a,
        fetch=fetch or FetchSettings(),
        target=b,
        produce=produce or ProduceSettings(),
        offsets=OffsetsLease(
            client=b,
            topic=unique_name("mm2-offsets"),
            partitions=OFFSETS_PARTITIONS,
            source_alias="A",
            flush_interval_ms=flush_interval_ms,
        ),
        offset_syncs=OffsetSyncsLease(client=a, topic=unique_name("mm2-offset-syncs"), lag_max=lag_max),
        partitions=partitions,
        validates_partitions=True,
    )


@asynccontextmanager
async def copying(
    source: KafkaCluster,
    target: KafkaCluster,
    topics: Mapping[str, int],
    *,
    remote_config: Mapping[str, str] | None = None,
    remote_copies: int | None = None,
    starts: Mapping[TopicPartition, int | None] | None = None,
    create: bool = True,
    source_client: ClientSettings | None = None,
    target_client: ClientSettings | None = None,
    fetch: FetchSettings | None = None,
    produce: ProduceSettings | None = None,
    buffer_bytes: int = BUFFER,
    flush_interval_ms: int = FLUSH_MS,
    predecessor: RunningSourceTask | None = None,
    exact_offsets: str | None = None,
    segments: Mapping[TopicPartition, str] | None = None,
    epochs: Mapping[TopicPartition, EpochStarts] | None = None,
    deadline: LeaseDeadline | None = None,
    limit: FetchLimit | None = None,
    producer: TaskProducer | None = None,
    transactions: TransactionsLease | None = None,
    on_data_loss: OnDataLoss | None = None,
    losses_config: Mapping[str, str] | None = None,
    dead_letters: str | None = None,
    timeouts: Timeouts = TIMEOUTS,
) -> AsyncIterator[RunningSourceTask]:
    """Run a source task that copies ``topics`` (name to number of partitions) from offsets ``starts``.

    ``predecessor``: run as successor of that source task, with its newest ``segments`` of the exact offsets topic, and
    the leader ``epochs`` in them. ``deadline``: of its lease, by default never. ``limit``: of what it fetches, by
    default none. ``on_data_loss``: losses are recorded in a topic of their own, created with ``losses_config``.
    ``create``: the remote topics. ``dead_letters``: the topic for records that cannot be copied.
    """
    remote = {topic: f"A.{topic}" for topic in topics}
    starts = starts or {}
    partitions = tuple(
        PartitionLease(
            topic=topic,
            partition=number,
            remote_topic=remote[topic],
            start_offset=starts.get(TopicPartition(topic, number)),
            last_segment=(segments or {}).get(TopicPartition(topic, number)),
            leader_epochs=(epochs or {}).get(TopicPartition(topic, number), ()),
        )
        for topic, count in topics.items()
        for number in range(count)
    )
    lease = lease_of(source, target, partitions, fetch=fetch, produce=produce, flush_interval_ms=flush_interval_ms)
    if transactions is not None and producer is None:
        producer = await acquired(target, unique_name("A-mm2-MirrorSourceConnector-0"))
    lease = replace(lease, producer=producer, transactions=transactions)
    lease = replace(lease, source=source_client or lease.source, target=target_client or lease.target)
    if exact_offsets is not None:
        lease = replace(lease, exact_offsets=ExactOffsetsLease(client=lease.target, topic=exact_offsets))
    if on_data_loss is not None:
        losses = LossesLease(client=lease.target, topic=unique_name("mm2-losses"), on_data_loss=on_data_loss)
        lease = replace(lease, losses=losses)
    if dead_letters is not None:
        lease = replace(lease, dead_letters=DeadLettersLease(topic=dead_letters))
    if predecessor is not None:
        lease = replace(lease, offsets=predecessor.lease.offsets, offset_syncs=predecessor.lease.offset_syncs)
    else:
        compacted = {"cleanup.policy": "compact"}
        assert lease.offset_syncs is not None
        assert lease.offsets is not None
        await asyncio.to_thread(
            target.create_topic, lease.offsets.topic, partitions=OFFSETS_PARTITIONS, config=compacted
        )
        await asyncio.to_thread(source.create_topic, lease.offset_syncs.topic, config=compacted)
        if lease.losses is not None:
            await asyncio.to_thread(
                target.create_topic, lease.losses.topic, config=compacted | dict(losses_config or {})
            )
        for topic, count in topics.items() if create else ():
            await asyncio.to_thread(
                target.create_topic,
                remote[topic],
                partitions=count,
                copies=remote_copies,
                config=dict(remote_config or {}),
            )
    budget = ByteBudget(buffer_bytes)
    runner = SourceTask(lease, budget, deadline or unlimited(), limit=limit, timeouts=timeouts)
    runner.start()
    try:
        yield RunningSourceTask(source, target, lease, budget, runner, remote)
    finally:
        await runner.close()
    assert budget.used == 0, "the whole budget was released"
