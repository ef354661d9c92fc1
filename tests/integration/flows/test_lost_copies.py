"""A target that loses acknowledged records, as in an unclean leader election: what is missing is on record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from mm2.core.lanes.lease import TransactionsLease
from mm2.core.lanes.losses import LossKind, OnDataLoss
from mm2.core.naming.names import TopicPartition
from tests.integration.flows.lane import COPIED, RunningSourceTask, copying
from tests.lab import scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.history import read_topic
from tests.lab.records import plain, write
from tests.lab.stored_batches import stored_batches
from tests.lab.truncated_log import truncate_log
from tests.lab.waiting import until

BATCH = 100
MARKERS = 8  # that can have taken the place of copies


def has_copied(source_task: RunningSourceTask, topic: str, position: int) -> bool:
    return source_task.partition(topic).position == position


@pytest.mark.parametrize("transactions", [None, TransactionsLease()], ids=["at-least-once", "exactly-once"])
async def test_copies_that_the_target_lost_are_on_record(
    cluster_a: KafkaCluster,
    breakable: KafkaCluster,
    unique: Callable[[str], str],
    transactions: TransactionsLease | None,
) -> None:
    target = breakable
    topic = cluster_a.create_topic(unique("orders"))
    exact = target.create_topic(unique("exact"), config={"cleanup.policy": "compact"})
    async with copying(
        cluster_a,
        target,
        {topic: 1},
        starts={TopicPartition(topic, 0): 0},
        exact_offsets=exact,
        on_data_loss=OnDataLoss.STOP_FLOW,
        transactions=transactions,
    ) as source_task:
        remote = source_task.remote[topic]
        for first in range(0, 1_000, BATCH):  # each its own transaction
            write(cluster_a.bootstrap, topic, plain(BATCH, first=first))
            done = partial(has_copied, source_task, topic, first + BATCH)
            await until(done, COPIED, "the records are copied, with exactly-once committed")
        await source_task.caught_up(topic)
        broker = target.broker(1)
        batches = stored_batches(broker.directory / scratch.DATA, remote)
        cut = next(
            one.last_offset + 1
            for one in batches
            if one.last_offset > 500 and one.control is (transactions is not None)
        )
        await asyncio.to_thread(truncate_log, broker, remote, cut)
        await asyncio.to_thread(broker.start)
        await asyncio.to_thread(broker.wait_ready)
        kept = len(read_topic(target.bootstrap, remote)[0])
        assert 0 < kept < 1_000
        write(cluster_a.bootstrap, topic, plain(50, first=1_000))
        await until(lambda: bool(source_task.runner.progress().losses), COPIED, "the loss is noticed")
        await source_task.caught_up(topic)
        (loss,) = source_task.runner.progress().losses
        assert (loss.until, loss.kind) == (1_000, LossKind.TARGET_TRUNCATED)
        earlier = MARKERS if transactions is None else BATCH  # up to one transaction more
        assert kept - earlier <= loss.first <= kept
        await source_task.drained()
        source, copies = read_topic(cluster_a.bootstrap, topic)[0], read_topic(target.bootstrap, remote)[0]
        assert [one.content for one in copies] == [one.content for one in (*source[:kept], *source[1_000:])]


async def test_a_recreated_remote_topic_is_no_loss(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str]
) -> None:
    topic = cluster_a.create_topic(unique("orders"))
    exact = cluster_b.create_topic(unique("exact"), config={"cleanup.policy": "compact"})
    write(cluster_a.bootstrap, topic, plain(500))
    async with copying(cluster_a, cluster_b, {topic: 1}, exact_offsets=exact) as source_task:
        remote = source_task.remote[topic]
        await source_task.caught_up(topic)
        cluster_b.delete_topic(remote)
        cluster_b.create_topic(remote)
        write(cluster_a.bootstrap, topic, plain(50, first=500))
        await until(lambda: len(read_topic(cluster_b.bootstrap, remote)[0]) == 50, COPIED, "copying continues")
        await until(lambda: bool(source_task.runner.progress().warnings), COPIED, "the new topic is reported")
        assert source_task.runner.progress().losses == ()
