"""What limits a source task is named. A slow query: `tests/integration/queries/test_slow_query.py`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from dataclasses import replace

from flows.lane.loop_load import LaneLoop
from flows.partition.timeouts import Timeouts
from mm2.core.lanes.bottlenecks import CAUGHT_UP, limited_by
from mm2.core.lanes.progress_reports import SourceTaskProgress
from mm2.core.settings.client import ProduceSettings
from tests.integration.flows.lane import RunningSourceTask, client, copying
from tests.lab.cable import CUT_OFF, Cable, listener_behind
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster
from tests.lab.quotas import set_quota
from tests.lab.records import Outgoing, write
from tests.lab.waiting import until

Unique = Callable[[str], str]
SHOWN = 30.0  # seconds, on busy cores; without load it takes three
MEGABYTES = 30
QUOTA = 500_000  # bytes per second: a minute for what is written
WENT_ON = 800  # records of 10 kB: 16 s


def written(cluster: KafkaCluster, topic: str) -> str:
    """Create a topic with records that cannot be compressed."""
    cluster.create_topic(topic)
    write(cluster.bootstrap, topic, [Outgoing(value=os.urandom(10_000)) for _ in range(100 * MEGABYTES)])
    return topic


async def reports(source_task: RunningSourceTask, sentence: str) -> SourceTaskProgress:
    """Wait for a report that begins with this sentence, and return it. That of the only partition is the same."""
    (topic,) = source_task.remote

    def limited() -> SourceTaskProgress | None:
        report, partition = source_task.reported(), source_task.partition(topic)
        lag = partition.end_offset - partition.position
        both = {limited_by(one, lag=lag).partition(", ")[0] for one in (report.last_minute, partition.last_minute)}
        seen.append(both)
        return report if both == {sentence} else None

    seen: list[set[str]] = []
    found = await until(limited, SHOWN, f"limited as expected; reported: {seen}")
    assert found is not None
    return found


def in_lane(work: Coroutine[None, None, None]) -> None:
    """Run ``work`` in the event loop of a lane, which knows how busy it is."""
    with asyncio.Runner(loop_factory=LaneLoop) as runner:
        runner.run(work)


def test_quota_of_the_target(cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique) -> None:
    """The lane's buffer is almost empty meanwhile."""
    topic = written(cluster_a, unique("target-quota"))

    async def copy() -> None:
        timeouts = Timeouts(unanswered_report_s=1.0)
        buffer = 128 * 1024 * 1024
        async with copying(cluster_a, cluster_b, {topic: 1}, buffer_bytes=buffer, timeouts=timeouts) as source_task:
            report = await reports(source_task, "limited by the target: quota")
            assert source_task.budget.held < source_task.budget.limit / 4
            assert report.counters.target_throttled > 0
            assert report.counters.source_throttled == 0
            errors: set[str | None] = set()

            def went_on() -> bool:
                partition = source_task.partition(topic)
                errors.add(partition.error)
                return partition.position >= WENT_ON

            await until(went_on, SHOWN, "several throttled requests are acknowledged")
            assert errors == {None}, "a broker that throttles is not silent"

    with set_quota(cluster_b, "producer_byte_rate", QUOTA):
        in_lane(copy())


def test_quota_of_the_source(cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique) -> None:
    topic = written(cluster_a, unique("source-quota"))

    async def copy() -> None:
        async with copying(cluster_a, cluster_b, {topic: 1}) as source_task:
            report = await reports(source_task, "limited by the source: quota")
            assert report.counters.source_throttled > 0
            assert report.counters.target_throttled == 0

    with set_quota(cluster_a, "consumer_byte_rate", QUOTA):
        in_lane(copy())


def test_cpu_of_the_lane(cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique) -> None:
    """It compresses all records again. When they are copied, nothing limits it any more."""
    topic = written(cluster_a, unique("lane"))

    async def copy() -> None:
        compressed = ProduceSettings(compression_type="zstd", compression_level=19)
        async with copying(cluster_a, cluster_b, {topic: 1}, produce=compressed) as source_task:
            await reports(source_task, "limited by this lane's CPU")
            report = await reports(source_task, CAUGHT_UP)
            assert sum(report.counters.latencies.counts) == sum(one.batches for one in report.batches)
            assert sum(report.counters.ages.counts) > 0

    in_lane(copy())


def test_window_over_a_long_link(cluster_a: KafkaCluster, start_cluster: StartCluster, unique: Unique) -> None:
    """One request at a time, and each is answered after a round trip of 0.4 s."""
    topic = written(cluster_a, unique("link"))
    with Cable("long", delay_s=0.2) as cable:
        target = start_cluster("target", listeners=(listener_behind(cable),))
        cable.plug(target.bootstrap_of(CUT_OFF))
        far = replace(client(target, "B"), bootstrap_servers=(cable.address,))

        async def copy() -> None:
            one = ProduceSettings(max_in_flight=1)
            async with copying(cluster_a, target, {topic: 1}, target_client=far, produce=one) as source_task:
                await reports(source_task, "limited by the link to the target: window full")

        in_lane(copy())
