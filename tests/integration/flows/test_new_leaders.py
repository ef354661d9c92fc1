"""A target broker is lost: its partitions are written to again as soon as they have new leaders."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from flows.partition.timeouts import Timeouts
from tests.integration.flows.lane import COPIED, copying
from tests.lab.arrivals import Arrivals
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster
from tests.lab.load import Load
from tests.lab.waiting import require_within

PARTITIONS, PER_SECOND = 6, 300
LONG = 300.0  # seconds: longer than the test
# A lost leader is not replaced before its session of 3 s has ended: until then its partitions are stuck, and pause. Its
# successor may take some time to learn that it leads.
TIMEOUTS = Timeouts(stuck_after_s=2.0, stuck_share=LONG, stuck_retry_s=LONG)
MOVED = (
    20.0  # seconds until new leaders are elected: a session of 3 s, and an election if the broker was the controller
)
LATER = 3.0  # seconds that a pause may be longer than that of a plain producer: a look per second, on busy cores


async def test_pause_after_failed_attempts_ends_with_a_new_leader(
    start_cluster: StartCluster,
    cluster_a: KafkaCluster,
    unique: Callable[[str], str],
) -> None:
    """Pauses grow with the time that a leader has failed; here they would not end within the test."""
    target = await asyncio.to_thread(start_cluster, "target", brokers=3)
    topic, plain = unique("orders"), unique("plain")
    cluster_a.create_topic(topic, PARTITIONS)
    await asyncio.to_thread(target.create_topic, plain, PARTITIONS, copies=2)
    async with copying(cluster_a, target, {topic: PARTITIONS}, timeouts=TIMEOUTS) as source_task:
        remote = source_task.remote[topic]
        with (
            Arrivals(target, remote, partitions=PARTITIONS) as arrivals,
            Arrivals(target, plain, partitions=PARTITIONS) as plain_arrivals,
            Load(cluster_a, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load,
            Load(target, plain, partitions=PARTITIONS, per_second=PER_SECOND) as plain_load,
        ):
            for one in (arrivals, plain_arrivals):
                await asyncio.to_thread(one.wait_for_all, time.monotonic(), COPIED)
            victim = await asyncio.to_thread(target.leader, remote)
            began = time.monotonic()
            victim.kill()
            await asyncio.sleep(1)  # requests to the lost leader fail from now on
            for one in (plain_arrivals, arrivals):
                await asyncio.to_thread(one.wait_for_all, time.monotonic(), MOVED)
            ended = time.monotonic()
            await asyncio.to_thread(load.stop)
            await asyncio.to_thread(plain_load.stop)
        ours, others = (one.gap(began, ended) for one in (arrivals, plain_arrivals))
        print(f"longest pause {ours:.1f} s, of a plain producer {others:.1f} s")
        require_within(ours, others + LATER, "records arrive at the new leaders")
        assert (await source_task.copied(topic, repeats_allowed=True)).lost == ()
