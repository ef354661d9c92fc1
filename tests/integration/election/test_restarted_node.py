"""A node that was killed or suspended, and another process with its node ID, while its ZooKeeper session lasts."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager

import pytest

from tests.integration.election import member_process
from tests.integration.election.member_process import MemberProcess
from tests.integration.election.members import SOON, Watched, info, names, watched
from tests.integration.election.stores import LONG_SESSION_MS, SESSION_MS, HeldPlace, elect
from tests.lab.cluster import KafkaCluster
from tests.lab.freezing import freeze, thaw
from tests.lab.waiting import until
from tests.lab.zookeeper import ZooKeeperServer

REPLACED = SESSION_MS / 1000 + 4.0  # seconds: the session in the group, and time for a busy machine
assert REPLACED < LONG_SESSION_MS / 1000 / 2  # half: ZooKeeper counts from the last ping, a third of its session ago


class Members:
    """Creates members of one election, in this process or in one that can be killed."""

    def __init__(self, place: HeldPlace, name: str, ends: ExitStack) -> None:
        self._place = place
        self._name = name
        self._ends = ends

    def start(self, node: str) -> MemberProcess:
        member = member_process.start(self._place, self._name, node)
        self._ends.callback(member.process.kill_group)
        return member

    @asynccontextmanager
    async def join(self, node: str) -> AsyncIterator[Watched]:
        making = elect(self._place.kind, self._place.where, self._name, info(node), names)
        async with making as election, watched(election) as one:
            yield one


@pytest.fixture
def members(group_cluster: KafkaCluster, zookeeper: ZooKeeperServer, name: str) -> Iterator[Members]:
    with ExitStack() as ends:
        yield Members(HeldPlace(group_cluster, zookeeper), name, ends)


async def until_alone(*members: Watched, others: int = 0, within: float) -> None:
    """Wait until these members and this number of ``others`` are all members, for each of them."""

    def alone() -> bool:
        joined = [one.joined for one in members if one.joined]
        ids = {each.member_id for each in joined}
        return len(ids) == len(members) and all(
            ids <= each.members.keys() and len(each.members) == len(ids) + others for each in joined
        )

    await until(alone, within, f"{len(members) + others} members, and no former process")


@pytest.mark.parametrize(
    "role",
    [  # a leader is the hardest: the other node has to lead first
        pytest.param("alone", marks=pytest.mark.long),
        "leader",
        pytest.param("follower", marks=pytest.mark.long),
    ],
)
async def test_former_process_ends_with_its_session_in_the_group(members: Members, role: str) -> None:
    """The restarted node joins before that, so the group always has a member with its node ID."""
    async with AsyncExitStack() as ends:
        others: list[Watched] = []

        async def two() -> None:
            others.append(await ends.enter_async_context(members.join("two")))
            await others[0].until_joined()

        if role == "follower":
            await two()
        former = members.start("one")
        await former.until("Joined", SOON)
        if role == "leader":
            await two()
        if others:
            await until_alone(*others, others=1, within=SOON)
            assert others[0].joined is not None
            assert others[0].joined.is_leader is (role == "follower")
        former.process.kill()
        restarted = await ends.enter_async_context(members.join("one"))
        await until_alone(restarted, *others, within=REPLACED)
        assert restarted.losses == []
        assert all(one.losses == [] for one in others)


async def test_suspended_process_leaves_when_it_resumes(members: Members) -> None:
    """Another process with its node ID has replaced it meanwhile. Both are members in the end."""
    former = members.start("one")
    await former.until("Joined", SOON)
    freeze(former.process)
    async with members.join("one") as restarted:
        await until_alone(restarted, within=REPLACED)
        resumed = time.monotonic()
        thaw(former.process)
        await former.until("Lost", SOON, after=resumed)
        await until_alone(restarted, others=1, within=SOON)
        assert restarted.losses == []
        assert [at for at, _ in former.leads() if at > resumed] == []


@pytest.mark.long  # two processes with one id: test_suspended_process_leaves_when_it_resumes
async def test_members_with_one_node_id_are_told_apart(members: Members) -> None:
    """One of two processes whose files have the same mm2.node.id by mistake is killed: the other remains a member."""
    async with members.join("one") as one, members.join("two") as two:
        twin = members.start("one")
        await twin.until("Joined", SOON)
        await until_alone(one, two, others=1, within=SOON)
        twin.process.kill()
        await until_alone(one, two, within=REPLACED)
    assert one.losses == two.losses == []
