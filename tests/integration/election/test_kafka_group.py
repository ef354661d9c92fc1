"""Membership in a group on a real broker: rounds, leadership, loss, and who may not be in it together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiokafka.protocol.group import JoinGroupRequest, LeaveGroupRequest

from mm2.election.kafka_group import GroupSettings, KafkaGroup
from mm2.election.protocol import HeldByOther, Joined, Json, Lost, MemberInfo, Membership
from mm2.kafka.cluster import Cluster, CoordinatorKind
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import BrokerError
from mm2.kafka.retrying import retried
from tests.integration.kafka.clients import connected, freeze, settings, thaw
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster
from tests.lab.waiting import until

SOON = 30.0  # seconds: a first join makes the broker create its offsets topic, on a machine that is busy
QUICK = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 200}  # 6 s is the least a broker accepts by default


def info(node: str, *slots: int) -> MemberInfo:
    return MemberInfo(node_id=node, url=f"http://{node}", capacity=2, slots=slots, version="test")


def names(members: Mapping[str, MemberInfo]) -> dict[str, Json]:
    """An assignment that shows who was seen: each member gets all node ids and its own."""
    everyone: list[Json] = [*sorted({one.node_id for one in members.values()})]
    return {member: {"all": everyone, "you": one.node_id} for member, one in members.items()}


class Watched:
    """A member and everything that happened to it."""

    def __init__(self, group: KafkaGroup) -> None:
        self.group = group
        self.history: list[Membership] = []

    @property
    def joined(self) -> Joined | None:
        last = self.history[-1] if self.history else None
        return last if isinstance(last, Joined) else None

    def sees(self, *nodes: str) -> bool:
        last = self.joined
        return last is not None and {one.node_id for one in last.members.values()} == set(nodes)

    @property
    def losses(self) -> list[Lost]:
        """After the first membership; until then they say what it is waiting for."""
        first = next((at for at, event in enumerate(self.history) if isinstance(event, Joined)), len(self.history))
        return [event for event in self.history[first:] if isinstance(event, Lost)]

    async def until_joined(self, *, after: int = -1, leading: bool = False) -> Joined:
        """Wait for a membership of a later generation than ``after``."""

        def found() -> Joined | None:
            last = self.joined
            return last if last and last.generation > after and (last.is_leader or not leading) else None

        last = await until(found, SOON, f"a member after generation {after}")
        assert last is not None
        return last

    async def record(self) -> None:
        async for event in self.group.events():
            self.history.append(event)


@asynccontextmanager
async def member(kafka: KafkaCluster, group: str, node: str, **other: int) -> AsyncIterator[Watched]:
    options = GroupSettings(**{"group_id": group, **QUICK, **other})  # type: ignore[arg-type]
    async with Cluster(settings(kafka, client_id=node)) as cluster:
        async with KafkaGroup(cluster, options, info(node), names) as joining:
            watched = Watched(joining)
            recording = asyncio.create_task(watched.record())
            yield watched
        await recording


@pytest.fixture
def group(unique: Callable[[str], str]) -> str:
    return unique("A-mm2")


async def test_the_first_leads_and_everyone_is_told_the_same(cluster_b: KafkaCluster, group: str) -> None:
    async with member(cluster_b, group, "one") as one:
        first = await one.until_joined()
        assert first.is_leader
        assert first.leader_node == "one"
        assert first.assignment == {"all": ["one"], "you": "one"}

        async with member(cluster_b, group, "two") as two:
            await until(lambda: one.sees("one", "two") and two.sees("one", "two"), SOON, "both see both")
            assert one.joined is not None
            assert two.joined is not None
            assert one.joined.generation == two.joined.generation > first.generation
            assert (one.joined.is_leader, two.joined.is_leader) == (True, False)
            assert two.joined.leader_node == "one"
            assert two.joined.assignment == {"all": ["one", "two"], "you": "two"}

        await until(lambda: one.sees("one"), 3.0, "two said goodbye, so nobody waits for its session to end")
    assert one.losses == []


async def test_a_new_leader_when_the_old_one_leaves(cluster_b: KafkaCluster, group: str) -> None:
    async with AsyncExitStack() as first, member(cluster_b, group, "two") as two:
        await two.until_joined()
        one = await first.enter_async_context(member(cluster_b, group, "one"))
        await until(lambda: one.sees("one", "two") and two.sees("one", "two"), SOON, "both are members")
        leader, follower = (one, two) if one.joined and one.joined.is_leader else (two, one)
        await leader.group.__aexit__(None, None, None)
        assert len((await follower.until_joined(leading=True)).members) == 1


async def test_news_of_a_follower_begin_a_round_and_repeated_news_do_not(cluster_b: KafkaCluster, group: str) -> None:
    async with member(cluster_b, group, "one") as one, member(cluster_b, group, "two") as two:
        await until(lambda: one.sees("one", "two") and two.sees("one", "two"), SOON, "both are members")
        follower = two if one.joined and one.joined.is_leader else one
        assert follower.joined is not None
        before = follower.joined.generation

        follower.group.update(replace(info(follower.joined.members[follower.joined.member_id].node_id), slots=(3, 1)))

        def all_know() -> bool:
            known = [any(m.slots == (1, 3) for m in w.joined.members.values()) for w in (one, two) if w.joined]
            return known == [True, True]

        await until(all_know, SOON, "both know the slots")
        after = follower.joined.generation
        assert after > before

        follower.group.update(replace(info(follower.joined.members[follower.joined.member_id].node_id), slots=(1, 3)))
        follower.group.request_round()
        await asyncio.sleep(1.0)  # five heartbeats, in which nothing is to happen
        assert follower.joined.generation == after


async def test_the_leader_can_ask_for_a_round(cluster_b: KafkaCluster, group: str) -> None:
    async with member(cluster_b, group, "one") as one:
        before = await one.until_joined()
        one.group.request_round()
        await one.until_joined(after=before.generation)


async def test_a_member_that_dies_is_replaced_after_its_session(cluster_b: KafkaCluster, group: str) -> None:
    async with member(cluster_b, group, "two") as two, connected(cluster_b) as cluster:
        dying = KafkaGroup(cluster, GroupSettings(group_id=group, **QUICK), info("dead"), names)
        await dying.__aenter__()
        await until(lambda: two.sees("dead", "two"), SOON, "both are members")
        assert dying._task is not None
        dying._task.cancel()  # and no goodbye, as after kill -9
        await until(lambda: two.sees("two"), SOON, "the session of the dead one ended")
        await dying.__aexit__(None, None, None)


async def test_the_membership_ends_by_our_own_clock_and_comes_back(start_cluster: StartCluster) -> None:
    kafka = start_cluster("b")
    async with member(kafka, "A-mm2", "one") as one:
        before = await one.until_joined()
        freeze(kafka.broker(1))
        await until(lambda: one.losses, 6.0 + 2.0, "the session is over without an answer")
        assert one.losses[0].reason.startswith("group A-mm2 on cluster b: no contact")
        thaw(kafka.broker(1))
        await one.until_joined(after=before.generation)


async def test_a_broker_restart_is_survived(start_cluster: StartCluster) -> None:
    kafka = start_cluster("b")
    async with member(kafka, "A-mm2", "one") as one, member(kafka, "A-mm2", "two") as two:
        await until(lambda: one.sees("one", "two") and two.sees("one", "two"), SOON, "both are members")
        generation = one.joined.generation if one.joined else 0
        await asyncio.to_thread(kafka.broker(1).restart)
        one.group.update(info("one", 7))
        two.group.update(info("two", 8))
        await until(lambda: one.sees("one", "two") and two.sees("one", "two"), SOON, "both are members again")
        await one.until_joined(after=generation)


async def test_a_cluster_that_is_not_there_is_waited_for(start_cluster: StartCluster) -> None:
    kafka = start_cluster("b")
    await asyncio.to_thread(kafka.broker(1).stop)
    async with member(kafka, "A-mm2", "one") as one:

        def told() -> bool:
            return any(isinstance(event, Lost) and "nothing listens there" in event.reason for event in one.history)

        await until(told, SOON, "it says what is wrong")
        await asyncio.to_thread(kafka.broker(1).restart)
        await one.until_joined()


@pytest.mark.parametrize(
    ("protocol_type", "holder"),
    [("connect", "a Java MirrorMaker"), ("consumer", "another tool (group protocol consumer)")],
)
async def test_another_protocol_is_waited_out_and_named(
    cluster_b: KafkaCluster, group: str, protocol_type: str, holder: str
) -> None:
    async with connected(cluster_b, client_id="A->B") as other:
        other_id = await join_as(other, group, protocol_type)
        async with member(cluster_b, group, "one") as one:
            refused = HeldByOther(
                reason=f"{holder} holds group {group} on cluster b (A->B at 127.0.0.1): waiting until it ends"
            )
            await until(lambda: one.history[-1:] == [refused], SOON, "one is refused and says by whom")
            coordinator = await other.coordinator(CoordinatorKind.GROUP, group)
            await other.send(coordinator, LeaveGroupRequest(group, other_id))
            await one.until_joined()


@pytest.mark.parametrize("protocol_type", ["connect", "consumer"])
async def test_others_are_refused_while_we_are_there_and_only_then(
    cluster_b: KafkaCluster, group: str, protocol_type: str
) -> None:
    async with member(cluster_b, group, "one") as one, connected(cluster_b) as other:
        await one.until_joined()
        answer = await ask_to_join(other, group, protocol_type)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    async with connected(cluster_b) as other:
        await join_as(other, group, protocol_type)


async def test_joining_creates_no_topic(cluster_b: KafkaCluster, group: str) -> None:
    async with connected(cluster_b) as cluster:
        before = set((await cluster.metadata(None)).topics)
        async with member(cluster_b, group, "one") as one:
            await one.until_joined()
        assert set((await cluster.metadata(None)).topics) - before <= {"__consumer_offsets"}


async def test_an_error_of_the_assignment_reaches_the_node(cluster_b: KafkaCluster, group: str) -> None:
    def broken(members: Mapping[str, MemberInfo]) -> Mapping[str, Json]:
        raise ZeroDivisionError(f"{len(members)} members")

    options = GroupSettings(group_id=group, **QUICK)
    async with connected(cluster_b) as cluster, KafkaGroup(cluster, options, info("one"), broken) as joining:
        with pytest.raises(ZeroDivisionError):
            async for _ in joining.events():
                pass


async def test_settings_the_broker_refuses_are_told_with_the_key(cluster_b: KafkaCluster, group: str) -> None:
    async with member(cluster_b, group, "one", session_timeout_ms=10) as one:
        lost = await until(
            lambda: [event for event in one.history if isinstance(event, Lost) and "INVALID" in event.reason],
            SOON,
            "it says what is wrong",
        )
        assert "session.timeout.ms must be between" in lost[0].reason


async def join_as(cluster: Cluster, group: str, protocol_type: str) -> str:
    answer = await ask_to_join(cluster, group, protocol_type)
    assert answer.error_code == 0
    return str(answer.member_id)


async def ask_to_join(cluster: Cluster, group: str, protocol_type: str) -> Any:
    """The answer to a join that takes no part in the round; what only needs time is waited for."""
    member_id = ""

    async def attempt() -> Any:
        nonlocal member_id
        coordinator = await cluster.coordinator(CoordinatorKind.GROUP, group)
        request = JoinGroupRequest(group, 10_000, 10_000, member_id, None, protocol_type, [("any", b"")])
        answer = await cluster.send(coordinator, request)
        if ErrorCode(answer.error_code).retriable:
            raise BrokerError(answer.error_code, f"join {group}")
        return answer

    for _ in range(2):  # the first answer only brings the member id
        answer = await retried(attempt, cluster.settings, timeout_ms=int(SOON * 1000))
        if answer.error_code != ErrorCode.MEMBER_ID_REQUIRED:
            break
        member_id = answer.member_id
    return answer
