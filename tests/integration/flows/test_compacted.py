"""Compacted sources: batches with holes, emptied batches, tombstones, the delete-horizon attribute."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable

import pytest

from mm2.core.naming.names import TopicPartition
from tests.integration.flows.lane import copying
from tests.lab import scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.exact_map import judge, read_segments
from tests.lab.history import count, read_topic
from tests.lab.records import Outgoing, write, write_transactions
from tests.lab.waiting import wait_until

CLEANED = 60.0  # seconds for the log cleaner, which is configured to run every 100 ms

COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "100",
    "segment.bytes": "1048576",
    "delete.retention.ms": "600000",  # tombstones stay, with their delete horizon
}


def keyed(rng: random.Random, records: int, *, keys: int = 60, first: int = 0) -> list[Outgoing]:
    """Return records with few keys, some of them deleted later, so that compaction leaves holes everywhere."""
    return [
        Outgoing(
            key=b"key-%d" % rng.randrange(keys),
            value=None if rng.random() < 0.2 else b"%d " % number + b"v" * 200,
            headers=(("n", b"%d" % number),),
        )
        for number in range(first, first + records)
    ]


def is_clean(cluster: KafkaCluster, topic: str) -> bool:
    """Return whether the cleaner is done up to the last segment, so that it changes nothing during the copy."""
    data = cluster.broker(1).directory / scratch.DATA
    last = max(int(segment.stem) for segment in (data / f"{topic}-0").glob("*.log"))
    checkpoint = data / "cleaner-offset-checkpoint"
    return checkpoint.exists() and f"{topic} 0 {last}" in checkpoint.read_text().splitlines()


@pytest.mark.parametrize("codec", ["none", pytest.param("lz4", marks=pytest.mark.long), "zstd"])  # as zstd
async def test_holes_and_tombstones(
    breakable: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str], rng: random.Random, codec: str
) -> None:
    source = breakable
    topic = unique("compacted")
    source.create_topic(topic, config=COMPACTED)
    for _ in range(4):  # several segments, as the last one is never cleaned
        write(source.bootstrap, topic, keyed(rng, 1_500), codec=codec)
        plan = [(keyed(rng, 20), True), (keyed(rng, 20), False)]
        write_transactions(source.bootstrap, topic, plan, transactional_id=unique("tx"), codec=codec)
        await asyncio.sleep(0.2)  # lets segment.ms pass

    def cleaned() -> bool:
        return is_clean(source, topic) and count(read_topic(source.bootstrap, topic)) < 2_500

    await asyncio.to_thread(wait_until, cleaned, CLEANED, "the cleaner removed records")
    exact_topic = cluster_b.create_topic(unique("mm2-exact-offsets"), config={"cleanup.policy": "compact"})
    async with copying(source, cluster_b, {topic: 1}, exact_offsets=exact_topic) as source_task:
        verdict = await source_task.copied(topic, isolation="read_uncommitted")
        assert verdict.exact
        await source_task.caught_up(topic)
        assert source_task.batches["holes"] > 0
        await source_task.drained()
    written = read_segments(cluster_b.bootstrap, exact_topic)[TopicPartition(topic, 0)]
    there = read_topic(source.bootstrap, topic, isolation="read_uncommitted")[0]
    coverage = judge(written, there, read_topic(cluster_b.bootstrap, f"A.{topic}")[0])
    assert len(list(written[-1].all_ranges())) > 20, "holes"
    assert coverage.conservative == frozenset()


async def test_thousands_of_holes_are_exact(
    breakable: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str], rng: random.Random
) -> None:
    """Short runs of records between holes of any size, far more than fit into one segment of unpacked ranges."""
    source = breakable
    topic = unique("compacted")
    source.create_topic(topic, config=COMPACTED)
    for first in range(0, 12_000, 4_000):
        write(source.bootstrap, topic, keyed(rng, 4_000, keys=5_000, first=first))
        await asyncio.sleep(0.2)  # lets segment.ms pass

    def cleaned() -> bool:
        return is_clean(source, topic) and count(read_topic(source.bootstrap, topic)) < 9_000

    await asyncio.to_thread(wait_until, cleaned, CLEANED, "the cleaner removed records")
    exact_topic = cluster_b.create_topic(unique("mm2-exact-offsets"), config={"cleanup.policy": "compact"})
    async with copying(source, cluster_b, {topic: 1}, exact_offsets=exact_topic) as source_task:
        await source_task.caught_up(topic)
        await source_task.drained()
    written = read_segments(cluster_b.bootstrap, exact_topic)[TopicPartition(topic, 0)]
    there, remote = read_topic(source.bootstrap, topic)[0], read_topic(cluster_b.bootstrap, f"A.{topic}")[0]
    coverage = judge(written, there, remote)
    assert coverage.conservative == frozenset()
    assert written[-1].packed is not None
    runs = sum(now.offset != last.offset + 1 for last, now in itertools.pairwise(there))
    assert runs > 1_024
    assert written[-1].sequence < 4
