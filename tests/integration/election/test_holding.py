"""Electing on ZooKeeper while the flow's Kafka group is held: who is kept out, and who waits for whom."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from mm2.election.group_messages import ELECTING, HOLDING
from mm2.election.holding import HoldingElection
from mm2.election.kafka_group import GroupSettings, KafkaGroup
from mm2.election.protocol import Assign, HeldByOther, Json, Lost, MemberInfo
from mm2.election.zookeeper import ZooKeeperElection
from mm2.election.zookeeper_settings import ZooKeeperSettings
from mm2.kafka.cluster import Cluster
from mm2.kafka.error_codes import ErrorCode
from tests.integration.election.members import SOON, Watched, info, names, until_together, watched
from tests.integration.election.other_protocols import ask_to_join
from tests.integration.election.stores import HEARTBEAT_MS, SESSION_MS, freeze, thaw
from tests.integration.kafka.clients import connected, settings
from tests.lab.cluster import KafkaCluster
from tests.lab.waiting import until
from tests.lab.zookeeper import ZooKeeperServer


class Both:
    """A Kafka cluster, a ZooKeeper, and a name for group and path."""

    def __init__(self, cluster: KafkaCluster, zookeeper: ZooKeeperServer, name: str) -> None:
        self.cluster = cluster
        self.zookeeper = zookeeper
        self.name = name

    def group(self, cluster: Cluster, node: str, protocol: str) -> KafkaGroup:
        told = GroupSettings(
            group_id=self.name,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            protocol=protocol,
        )
        return KafkaGroup(cluster, told, info(node), names)

    @asynccontextmanager
    async def holding(self, node: str, assign: Assign = names) -> AsyncIterator[Watched]:
        told = ZooKeeperSettings(
            servers=(self.zookeeper.address,),
            path=f"/held/{self.name}",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
        )

        def decide(latest: MemberInfo) -> ZooKeeperElection:
            return ZooKeeperElection(told, latest, assign)

        async with Cluster(settings(self.cluster, client_id=node)) as cluster:
            election = HoldingElection(self.group(cluster, node, HOLDING), decide, info(node))
            async with watched(election) as one:
                yield one

    @asynccontextmanager
    async def electing(self, node: str) -> AsyncIterator[Watched]:
        making = Cluster(settings(self.cluster, client_id=node))
        async with making as cluster, watched(self.group(cluster, node, ELECTING)) as one:
            yield one


@pytest.fixture
def both(group_cluster: KafkaCluster, zookeeper: ZooKeeperServer, name: str) -> Both:
    return Both(group_cluster, zookeeper, name)


async def test_zookeeper_decides_and_the_group_keeps_others_out(both: Both) -> None:
    async with both.holding("one") as one, both.holding("two") as two, connected(both.cluster) as other:
        await until_together(one, two)
        assert one.joined is not None
        answer = await ask_to_join(other, both.name, "connect")
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

        before = one.joined.generation
        one.election.update(replace(info("one"), tasks=("a",)))
        await one.until_joined(after=before)
        await until_together(one, two)
        async with both.electing("three") as three:

            def refused() -> bool:
                last = three.history[-1] if three.history else None
                return isinstance(last, HeldByOther) and "nodes with another mm2.election hold group" in last.reason

            await until(refused, SOON, "one that elects by the group is refused, and says why")
    assert one.losses == two.losses == []


async def test_while_others_hold_the_group_nobody_is_elected(both: Both) -> None:
    async with both.electing("one") as one:
        await one.until_joined()
        async with both.holding("two") as two:
            await until(lambda: any(isinstance(each, HeldByOther) for each in two.history), SOON, "two is refused")
            assert isinstance(two.election.membership, HeldByOther)
            await one.election.__aexit__(None, None, None)
            assert (await two.until_joined()).leader_node == "two"


async def test_who_loses_the_group_leaves_the_election_and_comes_back(both: Both) -> None:
    async with both.holding("one") as one:
        before = await one.until_joined()
        broker = both.cluster.broker(1).process
        freeze(broker)
        try:
            await until(lambda: one.losses, SOON, "the group is lost")
            assert isinstance(one.election.membership, Lost)
        finally:
            thaw(broker)
        await one.until_joined(after=before.generation)


async def test_an_error_of_the_assignment_reaches_the_node(both: Both) -> None:
    def broken(_generation: int, members: Mapping[str, MemberInfo]) -> Mapping[str, Json]:
        raise ZeroDivisionError(f"{len(members)} members")

    with pytest.raises(ZeroDivisionError):  # out of the reading of its events
        async with both.holding("one", broken) as one:
            await until(lambda: "ZeroDivisionError" in str(one.history), SOON, "the assignment failed")
