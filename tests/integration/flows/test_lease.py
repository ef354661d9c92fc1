"""A source task whose lease has ended sends nothing, and continues after a renewal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from flows.lane.lease_deadline import LeaseDeadline
from mm2.kafka.clock import session_clock
from tests.integration.flows.lane import COPIED, copying
from tests.lab.cluster import KafkaCluster
from tests.lab.history import end_offset_sum, read_topic
from tests.lab.records import plain, write
from tests.lab.waiting import until

Unique = Callable[[str], str]

FOREVER = float("inf")
RECORDS = 6_000


async def test_nothing_is_sent_without_a_lease(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = unique("leased")
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, plain(100))
    deadline = LeaseDeadline()
    deadline.renew(session_clock(), FOREVER)
    async with copying(cluster_a, cluster_b, {topic: 1}, deadline=deadline) as source_task:
        await until(lambda: source_task.partition(topic).stored == 100, COPIED, "the offset is stored")

        deadline.renew(session_clock(), 0.0)
        write(cluster_a.bootstrap, topic, plain(100, first=100))
        await asyncio.sleep(1)  # what is sent in spite of it would arrive within milliseconds
        assert end_offset_sum(cluster_b.bootstrap, f"A.{topic}") == 100

        deadline.renew(session_clock(), FOREVER)
        assert (await source_task.copied(topic)).exact
        await until(lambda: source_task.partition(topic).error is None, COPIED, "the error is resolved")


async def test_requests_in_flight_are_cut_off_when_the_lease_ends(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    """They are sent again after a renewal, with the same sequence numbers: nothing is repeated."""
    topic = unique("cut-off")
    cluster_a.create_topic(topic, partitions=3)
    write(cluster_a.bootstrap, topic, plain(RECORDS, partitions=3), records_per_batch=2)
    deadline = LeaseDeadline()
    deadline.renew(session_clock(), FOREVER)
    async with copying(cluster_a, cluster_b, {topic: 3}, deadline=deadline) as source_task:
        for _ in range(5):
            deadline.renew(session_clock(), 0.05)
            await asyncio.sleep(0.15)  # expired for a while, with requests in flight
        deadline.renew(session_clock(), FOREVER)
        assert (await source_task.copied(topic)).exact
    records = await asyncio.to_thread(read_topic, cluster_b.bootstrap, f"A.{topic}")
    assert sum(map(len, records.values())) == RECORDS
