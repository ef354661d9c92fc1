"""A source partition that loses its end (KIP-320): its new records are copied, and what it lost is reported."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from mm2.core.lanes.lease import Loss
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_records import Segment
from tests.integration.flows.lane import COPIED, RunningSourceTask, client, copying
from tests.lab.cable import CUT_OFF, Cable, listener_behind
from tests.lab.cluster import KafkaCluster
from tests.lab.exact_map import fold, read_segments
from tests.lab.fixtures import StartCluster
from tests.lab.history import Content, read_topic
from tests.lab.jars import VERSIONS
from tests.lab.records import plain, write
from tests.lab.truncated_log import truncate_log
from tests.lab.waiting import until

Unique = Callable[[str], str]

BATCH = 100  # records; a log is cut between batches


@pytest.fixture
def exact_topic(cluster_b: KafkaCluster, unique: Unique) -> str:
    return cluster_b.create_topic(unique("mm2-exact-offsets"), config={"cleanup.policy": "compact"})


@contextmanager
def behind_cable(start_cluster: StartCluster, version: str) -> Iterator[tuple[KafkaCluster, Cable]]:
    """A source of one broker, reached through a cable."""
    with Cable("source") as cable:
        source = start_cluster("truncated", version=version, listeners=(listener_behind(cable),))
        cable.plug(source.broker(1).address(CUT_OFF))
        yield source, cable


def contents(cluster: KafkaCluster, topic: str) -> list[Content]:
    return [record.content for record in read_topic(cluster.bootstrap, topic)[0]]


async def cut_off_the_end(source: KafkaCluster, topic: str, end: int) -> None:
    """Truncate the topic's log at offset ``end`` and start the broker again."""
    await asyncio.to_thread(truncate_log, source.broker(1), topic, end)
    await asyncio.to_thread(source.broker(1).start)
    await asyncio.to_thread(source.broker(1).wait_ready)


async def copied(source_task: RunningSourceTask, topic: str, expected: list[Content]) -> None:
    """Wait until the remote topic contains exactly ``expected``, offset by offset."""
    remote = source_task.remote[topic]
    await until(
        lambda: len(contents(source_task.target, remote)) >= len(expected), COPIED, f"{remote} has the new records"
    )
    await source_task.caught_up(topic)
    assert contents(source_task.target, remote) == expected


def losses(source_task: RunningSourceTask) -> list[Loss]:
    return list(source_task.runner.progress().losses)


@pytest.mark.parametrize("version", VERSIONS)
async def test_log_truncated_and_regrown_between_two_fetches(
    start_cluster: StartCluster, cluster_b: KafkaCluster, unique: Unique, version: str, exact_topic: str
) -> None:
    topic = unique("regrown")
    with behind_cable(start_cluster, version) as (source, cable):
        source.create_topic(topic)
        write(source.bootstrap, topic, plain(1_000), records_per_batch=BATCH)
        through = replace(client(source, "A"), bootstrap_servers=(cable.address,))
        async with copying(
            source, cluster_b, {topic: 1}, source_client=through, exact_offsets=exact_topic
        ) as source_task:
            await source_task.caught_up(topic)
            before = contents(source, topic)
            cable.cut()
            await cut_off_the_end(source, topic, 900)
            write(source.bootstrap, topic, plain(350, first=5_000), records_per_batch=BATCH)
            after = contents(source, topic)
            assert after[:900] == before[:900]
            assert len(after) == 1_250
            cable.heal()
            await copied(source_task, topic, before + after[900:])
