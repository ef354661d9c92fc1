"""Election through ZooKeeper while holding the flow's Kafka group, which keeps out other nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from mm2.core.settings.zookeeper import ZooKeeperSettings
from mm2.election.group_guarded_election import choose_election
from mm2.election.kafka.kafka_group import GroupSettings
from mm2.election.protocol import Assign, HeldByOther, Json, Lost, MemberInfo
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.protocol.error_codes import ErrorCode
from tests.integration.election.members import SOON, Watched, info, names, until_together, watched
from tests.integration.election.other_protocols import try_join
from tests.integration.election.stores import HEARTBEAT_MS, SESSION_MS
from tests.integration.kafka.clients import connected, settings
from tests.lab.cluster import KafkaCluster
from tests.lab.freezing import freeze, thaw
from tests.lab.waiting import until
from tests.lab.zookeeper import ZooKeeperServer


class Both:
    """A Kafka cluster, a ZooKeeper, and a common name for group and path."""

    def __init__(self, cluster: KafkaCluster, zookeeper: ZooKeeperServer, name: str) -> None:
        self.cluster = cluster
        self.zookeeper = zookeeper
        self.name = name

    @asynccontextmanager
    async def holding(
        self, node: str, assign: Assign = names, *, servers: tuple[str, ...] = (), root: str = "/held"
    ) -> AsyncIterator[Watched]:
        settings_of_node = ZooKeeperSettings(
            servers=servers or (self.zookeeper.address,),
            path=f"{root}/{self.name}",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
        )
        async with self._member(node, settings_of_node, assign) as one:
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


async def until_rejected(one: Watched, words: str) -> None:
    def refused() -> bool:
        last = one.history[-1] if one.history else None
        return isinstance(last, HeldByOther) and words in last.reason

    await until(refused, SOON, f"it is rejected with: {words}")


@pytest.fixture
def both(group_cluster: KafkaCluster, zookeeper: ZooKeeperServer, name: str) -> Both:
    return Both(group_cluster, zookeeper, name)


async def test_zookeeper_elects_and_the_group_excludes_other_nodes(both: Both) -> None:
    async with both.holding("one") as one, both.holding("two") as two, connected(both.cluster) as other:
        await until_together(one, two)
        assert one.joined is not None
        answer = await try_join(other, both.name, "connect")
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

        before = one.joined.generation
        one.election.update(replace(info("one"), tasks=("a",)))
        await one.until_joined(after=before)
        await until_together(one, two)
        async with both.electing("three") as three:
            await until_rejected(three, f"mm2.election = zookeeper ({both.zookeeper.address}/held/{both.name}) hold")
    assert one.losses == two.losses == []


async def test_no_election_while_the_group_is_held_by_others(both: Both) -> None:
    async with both.electing("one") as one:
        await one.until_joined()
        async with both.holding("two") as two:
            await until_rejected(two, "nodes with mm2.election = kafka hold")
            assert isinstance(two.election.membership, HeldByOther)
            await one.election.__aexit__(None, None, None)
            assert (await two.until_joined()).leader_node == "two"


async def test_node_with_a_different_election_is_rejected(both: Both) -> None:
    """A flow with two elections would have two leaders: with other servers, or another root on the same servers."""
    async with both.holding("one") as one:
        await one.until_joined()
        async with both.holding("two", root="/other") as two, both.holding("three", servers=("other:2181",)) as three:
            for each in (two, three):
                await until_rejected(each, f"({both.zookeeper.address}/held/{both.name}) hold")
    assert one.losses == []


async def test_nodes_with_a_common_server_elect_together(both: Both) -> None:
    """As during a replacement of servers one by one. The other addresses do not listen."""
    here = both.zookeeper.address
    async with both.holding("one", servers=(here, "127.0.0.1:1")) as one:
        await one.until_joined()
        async with both.holding("two", servers=("127.0.0.2:1", here)) as two:
            await until_together(one, two)


async def test_node_that_loses_the_group_leaves_and_rejoins(both: Both) -> None:
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


async def test_assignment_error_is_raised_to_the_node(both: Both) -> None:
    def broken(_generation: int, members: Mapping[str, MemberInfo]) -> Mapping[str, Json]:
        raise ZeroDivisionError(f"{len(members)} members")

    with pytest.raises(ZeroDivisionError):  # raised by the iteration over its events
        async with both.holding("one", broken) as one:
            # not when the reason appears: leaving at that point would interrupt closing the session
            await until(one.ended.is_set, SOON, "the assignment failed and the events have ended with its error")
