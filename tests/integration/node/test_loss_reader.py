"""Every loss of a flow for `GET /flows/…/losses`: from memory, and the new ones from the topic."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from mm2.core.lanes.losses import Loss, encode_loss, encode_loss_key
from mm2.core.settings.client import ClientSettings
from mm2.kafka.client.cluster import Cluster
from mm2.node.store.loss_store import FRESH_S, LossReader
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.records import Outgoing, write

LOSS = Loss(topic="orders", partition=0, first=10, until=25, reason="gone", kind="retention")
LATER = replace(LOSS, first=40, until=45)


async def test_the_topic_is_read_once_a_second(cluster_b: KafkaCluster) -> None:
    topic = cluster_b.create_topic(unique_name("losses"), config={"cleanup.policy": "compact"})

    def record(loss: Loss) -> None:
        write(cluster_b.bootstrap, topic, [Outgoing(key=encode_loss_key(loss), value=encode_loss(loss))])

    now = 0.0
    settings = ClientSettings(bootstrap_servers=tuple(cluster_b.bootstrap.split(",")))
    async with Cluster(settings) as cluster:
        reader = LossReader(cluster, topic, clock=lambda: now)
        record(LOSS)
        assert await asyncio.gather(*(reader.read() for _ in range(100))) == [(LOSS,)] * 100
        record(LATER)
        assert await reader.read() == (LOSS,)
        now += FRESH_S
        assert await reader.read() == (LOSS, LATER)
        record(replace(LOSS, accepted=True))
        now += FRESH_S
        assert await reader.read() == (LATER, replace(LOSS, accepted=True))
        interrupted = asyncio.create_task(reader.read())
        now += FRESH_S
        await asyncio.sleep(0)
        interrupted.cancel()
        await asyncio.wait([interrupted])
        assert await reader.read() == (LATER, replace(LOSS, accepted=True))
