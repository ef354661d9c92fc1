"""A slot at work between two real clusters, in this process: what a lane in a Spark worker runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from flows.budget import ByteBudget
from flows.slot import SlotRunner
from mm2.core.client_settings import ClientSettings, FetchSettings, ProduceSettings
from mm2.core.lease import (
    ExactOffsetsLease,
    OffsetsLease,
    OffsetSyncsLease,
    PartitionLease,
    PartitionProgress,
    SlotLease,
    SlotProgress,
)
from mm2.core.names import Flow, TopicPartition
from mm2.core.slot_words import SlotWord
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.verify import Verdict, wait_until_copied
from tests.lab.waiting import until

COPIED = 60.0  # seconds for a test's records to be copied on a busy machine
DRAINED = 20.0
BUFFER = 16 * 1024 * 1024
OFFSETS_PARTITIONS = 3
FLUSH_MS = 300
QUICK_MS = 300  # backoff at most, so that tests of faults wait less


def client(cluster: KafkaCluster, alias: str) -> ClientSettings:
    return ClientSettings(
        bootstrap_servers=tuple(cluster.bootstrap.split(",")),
        alias=alias,
        retry_backoff_max_ms=QUICK_MS,
        reconnect_backoff_max_ms=QUICK_MS,
    )


@dataclass
class Slot:
    """One slot's lease and runner, and what tests ask of them."""

    source: KafkaCluster
    target: KafkaCluster
    lease: SlotLease
    budget: ByteBudget
    runner: SlotRunner
    remote: dict[str, str] = field(default_factory=dict)
    word: SlotWord | None = None

    def told(self) -> SlotProgress:
        """What the node knows of the slot: all reports so far, put together."""
        news = self.runner.news()
        if self.word is None:
            self.word = SlotWord(news)
        self.word.take(news)
        return self.word.progress

    def partition(self, topic: str, partition: int = 0) -> PartitionProgress:
        return next(one for one in self.told().partitions if (one.topic, one.partition) == (topic, partition))

    @property
    def batches(self) -> dict[str, int]:
        """Batches by reason; those passed through under ''."""
        return {count.reason: count.batches for count in self.runner.progress().batches}

    async def copied(self, topic: str, *, isolation: str = "read_committed", repeats_allowed: bool = False) -> Verdict:
        """Wait until the remote topic is the source topic, and judge it."""
        return await asyncio.to_thread(
            wait_until_copied,
            (self.source.bootstrap, topic),
            (self.target.bootstrap, self.remote[topic]),
            COPIED,
            isolation=isolation,
            repeats_allowed=repeats_allowed,
        )

    async def caught_up(self, topic: str) -> None:
        """Wait until nothing lags."""

        def none_lags() -> bool:
            ours = [one for one in self.told().partitions if one.topic == topic]
            return bool(ours) and all(one.position == one.end_offset >= 0 and not one.lag_seconds for one in ours)

        await until(none_lags, COPIED, f"{topic} has no lag")

    async def drained(self) -> dict[TopicPartition, int | None]:
        """Drain, and what is stored then."""
        self.runner.drain()
        await until(lambda: self.told().drained, DRAINED, "the slot is drained")
        assert by_place(self.told()) == by_place(self.runner.progress()), "the node knows all there is to know"
        return {place: one.stored for place, one in by_place(self.told()).items()}


def by_place(slot: SlotProgress) -> dict[TopicPartition, PartitionProgress]:
    return {TopicPartition(one.topic, one.partition): one for one in slot.partitions}


def lease_of(
    source: KafkaCluster,
    target: KafkaCluster,
    partitions: tuple[PartitionLease, ...],
    *,
    fetch: FetchSettings | None = None,
    produce: ProduceSettings | None = None,
    flush_interval_ms: int = FLUSH_MS,
    lag_max: int = 100,
) -> SlotLease:
    a, b = client(source, "A"), client(target, "B")
    return SlotLease(
        flow=Flow("A", "B"),
        slot=0,
        epoch=1,
        source=a,
        fetch=fetch or FetchSettings(),
        target=b,
        produce=produce or ProduceSettings(),
        offsets=OffsetsLease(
            client=b,
            topic=unique_name("mm2-offsets"),
            partitions=OFFSETS_PARTITIONS,
            flush_interval_ms=flush_interval_ms,
        ),
        offset_syncs=OffsetSyncsLease(client=a, topic=unique_name("mm2-offset-syncs"), lag_max=lag_max),
        partitions=partitions,
    )


@asynccontextmanager
async def copying(
    source: KafkaCluster,
    target: KafkaCluster,
    topics: Mapping[str, int],
    *,
    remote_config: Mapping[str, str] | None = None,
    starts: Mapping[TopicPartition, int | None] | None = None,
    create: bool = True,
    fetch: FetchSettings | None = None,
    produce: ProduceSettings | None = None,
    buffer_bytes: int = BUFFER,
    flush_interval_ms: int = FLUSH_MS,
    again: Slot | None = None,
    exact_offsets: str | None = None,
    segments: Mapping[TopicPartition, str] | None = None,
) -> AsyncIterator[Slot]:
    """A slot that copies ``topics`` (name to partitions) from ``starts``; ``again``: as the successor of that one, with
    the newest ``segments`` of the ``exact_offsets`` topic."""
    remote = {topic: f"A.{topic}" for topic in topics}
    starts = starts or {}
    partitions = tuple(
        PartitionLease(
            topic=topic,
            partition=number,
            remote_topic=remote[topic],
            start_offset=starts.get(TopicPartition(topic, number)),
            last_segment=(segments or {}).get(TopicPartition(topic, number)),
        )
        for topic, count in topics.items()
        for number in range(count)
    )
    lease = lease_of(source, target, partitions, fetch=fetch, produce=produce, flush_interval_ms=flush_interval_ms)
    if exact_offsets is not None:
        lease = replace(lease, exact_offsets=ExactOffsetsLease(client=lease.target, topic=exact_offsets, slots=32))
    if again is not None:
        lease = replace(lease, offsets=again.lease.offsets, offset_syncs=again.lease.offset_syncs)
    elif create:
        compacted = {"cleanup.policy": "compact"}
        assert lease.offset_syncs is not None
        await asyncio.to_thread(
            target.create_topic, lease.offsets.topic, partitions=OFFSETS_PARTITIONS, config=compacted
        )
        await asyncio.to_thread(source.create_topic, lease.offset_syncs.topic, config=compacted)
        for topic, count in topics.items():
            await asyncio.to_thread(
                target.create_topic, remote[topic], partitions=count, config=dict(remote_config or {})
            )
    budget = ByteBudget(buffer_bytes)
    runner = SlotRunner(lease, budget)
    await runner.start()
    try:
        yield Slot(source, target, lease, budget, runner, remote)
    finally:
        await runner.close()
    assert budget.used == 0, "every byte was given back"
