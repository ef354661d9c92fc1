"""mm2.max.bytes.per.second in a lane: what one source task fetches with a share of it, and what its partitions say."""

from __future__ import annotations

import time
from collections.abc import Callable

from flows.source.fetch_limit import FetchLimit
from mm2.core.lanes.bottlenecks import limited_by
from mm2.core.lanes.partition_steps import FetchStep
from tests.integration.flows.lane import COPIED, RunningSourceTask, copying
from tests.lab.cluster import KafkaCluster
from tests.lab.records import plain, write
from tests.lab.waiting import until

Unique = Callable[[str], str]

LIMIT = 1_000_000
SECONDS = 8  # long enough for a poll, 0.25 s, to be a third of the tolerance
PARTITIONS = 2
VALUE_BYTES = 10_000
RECORDS = LIMIT * (SECONDS + 4) // VALUE_BYTES  # what is left is copied without a limit


def copied_bytes(source_task: RunningSourceTask) -> int:
    return sum(one.counters.bytes for one in source_task.reported().partitions)


async def test_a_source_task_fetches_its_share_and_all_partitions_get_their_part(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    """The 30 s over two nodes are in tests/integration/test_flow_bandwidth.py (long)."""
    topic = unique("limited")
    cluster_a.create_topic(topic, partitions=PARTITIONS)
    write(cluster_a.bootstrap, topic, plain(RECORDS, partitions=PARTITIONS, value_bytes=VALUE_BYTES))
    limit = FetchLimit()
    limit.set_rate(LIMIT)
    async with copying(cluster_a, cluster_b, {topic: PARTITIONS}, limit=limit) as source_task:
        await until(lambda: copied_bytes(source_task) >= LIMIT, COPIED, "a second's worth is copied")
        began, before = time.monotonic(), copied_bytes(source_task)
        enough = before + LIMIT * SECONDS
        await until(lambda: copied_bytes(source_task) >= enough, COPIED, f"{SECONDS} MB more are copied")
        rate = (copied_bytes(source_task) - before) / (time.monotonic() - began)
        assert 0.9 * LIMIT <= rate <= 1.1 * LIMIT
        reported = source_task.reported()
        parts = [one.counters.bytes for one in reported.partitions]
        assert min(parts) >= 0.4 * sum(parts), "neither partition waits for the other"
        assert reported.fetched is not None
        assert reported.fetched.limited_s >= SECONDS / 2
        fetching = source_task.partition(topic).fetching
        assert fetching is not None
        assert fetching.step == FetchStep.LIMITED
        assert fetching.reason == f"limited by mm2.max.bytes.per.second: the source task's share is {LIMIT:,} bytes/s"
        limits = limited_by(reported.last_minute, lag=1)
        assert limits.startswith("limited by mm2.max.bytes.per.second, "), limits
        limit.set_rate(None)
        assert (await source_task.copied(topic)).exact
        await source_task.caught_up(topic)
        reported = source_task.reported()
        assert reported.fetched is None
        assert {one.fetching.step for one in reported.partitions if one.fetching} == {FetchStep.FETCHING}
