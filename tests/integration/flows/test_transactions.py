"""Exactly-once: records, source offsets and exact offsets in the same transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mm2.core.lanes.lease import TransactionsLease
from tests.integration.flows.lane import copying
from tests.lab.cluster import KafkaCluster
from tests.lab.records import plain, write

Unique = Callable[[str], str]


async def test_records_are_committed_with_their_offsets(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic = cluster_a.create_topic(unique("eos"), 3)
    write(cluster_a.bootstrap, topic, plain(300))
    exact = cluster_b.create_topic(unique("exact"), config={"cleanup.policy": "compact"})
    async with copying(
        cluster_a, cluster_b, {topic: 3}, transactions=TransactionsLease(), exact_offsets=exact
    ) as source_task:
        assert (await source_task.copied(topic)).exact
        for first in range(300, 900, 100):
            write(cluster_a.bootstrap, topic, plain(100, first=first))
            await asyncio.sleep(0.15)
        assert (await source_task.copied(topic)).exact
        await source_task.caught_up(topic)
        stored = await source_task.drained()
        assert sum(offset or 0 for offset in stored.values()) == 900
