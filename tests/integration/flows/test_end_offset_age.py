"""A source that is dead or hangs: nothing is caught up any more, since nobody knows what it has."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from flows.partition.state import END_OFFSET_VALID_S
from mm2.core.lanes.progress_reports import PartitionProgress
from mm2.core.settings.client import FetchSettings
from tests.integration.flows.lane import COPIED, RunningSourceTask, copying
from tests.lab.cluster import KafkaCluster
from tests.lab.freezing import frozen
from tests.lab.records import plain, write
from tests.lab.waiting import GaveUp, until

Unique = Callable[[str], str]
PARTITIONS = 100
ONE_REQUEST = 5.0  # seconds, on a busy machine, from the last answer to the report that there was none since


@asynccontextmanager
async def killed(source: KafkaCluster) -> AsyncIterator[None]:
    broker = source.broker(1)
    await asyncio.to_thread(broker.kill)
    yield
    await asyncio.to_thread(broker.restart)


@asynccontextmanager
async def hung(source: KafkaCluster) -> AsyncIterator[None]:
    with frozen(source.broker(1).process):
        yield


@pytest.mark.parametrize(
    ("fault", "max_wait_ms"),
    [pytest.param(killed, 500, id="killed", marks=pytest.mark.long), pytest.param(hung, 30_000, id="hung")],  # harder
)
@pytest.mark.timeout(240)
async def test_lag_is_unknown_while_the_source_does_not_answer(
    breakable: KafkaCluster,
    cluster_b: KafkaCluster,
    unique: Unique,
    requests: list[str],
    fault: Callable[[KafkaCluster], AbstractAsyncContextManager[None]],
    max_wait_ms: int,
) -> None:
    """Before that, idle partitions are known to have no lag, without a report about them: by the answers of the fetch
    session, or if a fetch waits for longer than an end offset is valid, by ListOffsets."""
    topic = unique("silent-source")
    breakable.create_topic(topic, partitions=PARTITIONS)
    write(breakable.bootstrap, topic, plain(10))
    fetch = FetchSettings(max_wait_ms=max_wait_ms)
    async with copying(breakable, cluster_b, {topic: PARTITIONS}, fetch=fetch) as source_task:
        await source_task.caught_up(topic)
        await until(lambda: source_task.partition(topic).stored == 10, COPIED, "the offset is stored")
        await stays_known(source_task, requests, is_listed=max_wait_ms > END_OFFSET_VALID_S * 1_000)
        before = {one.partition: (one.position, one.end_offset) for one in source_task.reported().partitions}
        async with fault(breakable):
            failed_at = time.time()
            await until(
                lambda: all(one.end_observed is not None for one in source_task.reported().partitions),
                END_OFFSET_VALID_S + ONE_REQUEST,
                "the lag of all partitions is unknown",
            )
            reported = source_task.reported().partitions
            assert {one.partition: (one.position, one.end_offset) for one in reported} == before
            assert all(abs(observed(one) - failed_at) < ONE_REQUEST for one in reported), "the time of the last answer"
        write(breakable.bootstrap, topic, plain(10, first=10))
        await until(
            lambda: all(one.end_observed is None for one in source_task.reported().partitions),
            COPIED,
            "the lag of all partitions is known again",
        )
        assert (await source_task.copied(topic)).exact
        await source_task.caught_up(topic)


async def stays_known(source_task: RunningSourceTask, requests: list[str], *, is_listed: bool) -> None:
    """Wait for longer than an end offset is valid, while the source is idle."""
    source_task.runner.news()
    requests.clear()
    period = END_OFFSET_VALID_S + 2.0
    with pytest.raises(GaveUp):
        await until(lambda: source_task.runner.news().partitions != (), period, "something is reported")
    assert all(one.end_observed is None for one in source_task.runner.progress().partitions)
    listed = sum(kind.startswith("OffsetRequest") for kind in requests)
    assert listed <= period, "at most one request per second"
    assert (listed > 0) is is_listed


def observed(partition: PartitionProgress) -> float:
    assert partition.end_observed is not None
    return partition.end_observed
