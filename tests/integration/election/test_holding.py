"""Electing on ZooKeeper while the flow's Kafka group is held: who is kept out, and who waits for whom."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from mm2.core.zookeeper_settings import ZooKeeperSettings
from mm2.election.choice import choose_election
from mm2.election.kafka_group import GroupSettings
from mm2.election.protocol import Assign, HeldByOther, Json, Lost, MemberInfo
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

    @asynccontextmanager
    async def holding(
        self, node: str, assign: Assign = names, *, servers: tuple[str, ...] = (), root: str = "/held"
    ) -> AsyncIterator[Watched]:
        told = ZooKeeperSettings(
            servers=servers or (self.zookeeper.address,),
            path=f"{root}/{self.name}",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
        )
        async with self._member(node, told, assign) as one:
            yield one

    @asynccontextmanager
    async def electing(self, node: str) -> AsyncIterator[Watched]:
        async with self._member(node, None, names) as one:
            yield one

    @asynccontextmanager
    async def _member(self, node: str, zookeeper: ZooKeeperSettings | None, assign: Assign) -> AsyncIterator[Watched]:
        group = GroupSettings(group_id=self.name, session_timeout_ms=SESSION_MS, heartbeat_interval_ms=HEARTBEAT_MS)
        making = Cluster(settings(self.cluster, client_id=node))
        async with (
            making as cluster,
            watched(choose_election(zookeeper, cluster, group, info(node), assign)) as one,
        ):
            yield one


async def until_refused(one: Watched, words: str) -> None:
    def refused() -> bool:
        last = one.history[-1] if one.history else None
        return isinstance(last, HeldByOther) and words in last.reason

    await until(refused, SOON, f"it is refused and says: {words}")


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
            await until_refused(three, f"mm2.election = zookeeper, by {both.zookeeper.address}/held/{both.name}, hold")
    assert one.losses == two.losses == []


async def test_while_others_hold_the_group_nobody_is_elected(both: Both) -> None:
    async with both.electing("one") as one:
        await one.until_joined()
        async with both.holding("two") as two:
            await until_refused(two, "nodes with mm2.election = kafka hold")
            assert isinstance(two.election.membership, HeldByOther)
            await one.election.__aexit__(None, None, None)
            assert (await two.until_joined()).leader_node == "two"


async def test_who_would_elect_elsewhere_is_refused(both: Both) -> None:
    """Two elections of one flow would have two leaders: other servers, or another root on the same ones."""
    async with both.holding("one") as one:
        await one.until_joined()
        async with both.holding("two", root="/other") as two, both.holding("three", servers=("other:2181",)) as three:
            for each in (two, three):
                await until_refused(each, f"by {both.zookeeper.address}/held/{both.name}, hold")
    assert one.losses == []


async def test_nodes_whose_files_share_a_server_elect_together(both: Both) -> None:
    """As while servers are added and removed one by one. None listens at the other addresses."""
    here = both.zookeeper.address
    async with both.holding("one", servers=(here, "127.0.0.1:1")) as one:
        await one.until_joined()
        async with both.holding("two", servers=("127.0.0.2:1", here)) as two:
            await until_together(one, two)


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
            # not when its words are there: they come before the session is ended, which who leaves then cuts short
            await until(one.ended.is_set, SOON, "the assignment failed, and the events end with its error")
