"""The status of a flow before its topics are known, and errors that end the discovery."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mm2.core.policies import DefaultReplicationPolicy
from mm2.core.topics.topic_plan import ReturnedCopy
from mm2.kafka.admin.cluster_admin import ClusterAdmin
from mm2.kafka.logs.transaction_coordinator import Fenced
from mm2.node.leader.discovery import LOOKING, TopicDiscovery
from mm2.node.leader.remote_topics import Discovery, RemoteTopics
from tests.lab.tasks import unconnected_cluster
from tests.lab.waiting import until
from tests.unit.config.files import flow

SOON = 10.0  # seconds


async def test_discovering_is_the_reason_until_the_first_round_ends(tmp_path: Path) -> None:
    rounds = 0
    answer: asyncio.Future[Discovery] = asyncio.get_running_loop().create_future()

    class Looking(RemoteTopics):
        async def discover(self) -> Discovery:
            nonlocal rounds
            rounds += 1
            return await answer

    settings = flow(tmp_path, "emit.offset-syncs.enabled = false\n")
    admin = ClusterAdmin(unconnected_cluster())
    discovery = TopicDiscovery(
        settings, admin, admin, settings.replication_filter, published=list, remote_topics=Looking
    )

    async def take(_: Discovery) -> None:
        pass

    running = asyncio.create_task(discovery.run(take))
    await until(lambda: rounds == 1, SOON, "the first round starts")
    assert discovery.error.text == LOOKING
    running.cancel()
    await asyncio.wait([running])


async def test_a_fenced_leader_ends_its_term(tmp_path: Path) -> None:
    """The broker also fences the leader after a transaction that took too long: only its next term can write again."""

    class Looking(RemoteTopics):
        async def discover(self) -> Discovery:
            return Discovery(topics=(), partitions=())

    async def decide(_: Discovery) -> Discovery:
        raise Fenced("transactional id connect-cluster-A-mm2: not held by this producer")

    async def take(_: Discovery) -> None:
        pass

    settings = flow(tmp_path, "emit.offset-syncs.enabled = false\n")
    admin = ClusterAdmin(unconnected_cluster())
    discovery = TopicDiscovery(
        settings,
        admin,
        admin,
        settings.replication_filter,
        published=list,
        decide_starts=decide,
        remote_topics=Looking,
    )
    with pytest.raises(Fenced):
        await asyncio.wait_for(discovery.run(take), SOON)


class PolicyWithoutHeartbeats(DefaultReplicationPolicy):
    def is_heartbeats_topic(self, topic: str) -> bool:
        raise ValueError(f"no answer for {topic}")


async def test_a_policy_that_fails_for_a_left_out_topic_does_not_end_the_round(tmp_path: Path) -> None:
    class Found(RemoteTopics):
        async def discover(self) -> Discovery:
            copy = ReturnedCopy(flow=settings.flow, topic="x.A.orders", remote_topic="A.orders")
            return Discovery(topics=(), partitions=(), returned={copy.topic: copy})

    settings = flow(tmp_path, f"replication.policy.class = {__name__}:{PolicyWithoutHeartbeats.__name__}\n")
    admin = ClusterAdmin(unconnected_cluster())
    discovery = TopicDiscovery(settings, admin, admin, settings.replication_filter, published=list, remote_topics=Found)
    await discovery.look()
    (warning,) = discovery.warnings
    assert warning.startswith("topic x.A.orders is a copy of A.orders")
