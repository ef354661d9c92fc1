"""ZooKeeper-specific parts of an election: version checks, identities, and sessions that servers shorten or expire."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NoAuthError, NoNodeError

from mm2.core.settings.zookeeper import AuthScheme, ZooKeeperAuth, ZooKeeperSettings
from mm2.election.protocol import Joined, Lost
from mm2.election.zookeeper.zookeeper_election import RebalanceMessage, ZooKeeperElection, encode_round
from mm2.election.zookeeper.zookeeper_session import SessionOver, ZooKeeperSession
from tests.integration.election.cutting_proxy import CuttingProxy
from tests.integration.election.members import SOON, Watched, info, names, until_together, watched
from tests.integration.election.stores import HEARTBEAT_MS, SESSION_MS
from tests.lab.freezing import freeze, thaw
from tests.lab.waiting import until
from tests.lab.zookeeper import ZooKeeperServer

LATE = 3.0  # extra seconds for a busy machine
DIGEST = ZooKeeperAuth(scheme=AuthScheme.DIGEST, username="mm2", password="digest-secret")
SASL = ZooKeeperAuth(scheme=AuthScheme.SASL, username="mm2", password="sasl-secret")


def settings(server: ZooKeeperServer, name: str, auth: ZooKeeperAuth | None = None) -> ZooKeeperSettings:
    return ZooKeeperSettings(
        servers=(server.address,),
        path=f"/chroot of {name}/mm2/A->B",
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        auth=auth,
    )


@asynccontextmanager
async def member(
    server: ZooKeeperServer, name: str, node: str, auth: ZooKeeperAuth | None = None
) -> AsyncIterator[Watched]:
    async with watched(ZooKeeperElection(settings(server, name, auth), info(node), names)) as one:
        yield one


@asynccontextmanager
async def session(server_settings: ZooKeeperSettings) -> AsyncIterator[ZooKeeperSession]:
    async with ZooKeeperSession(server_settings, lambda: None) as one:
        await until(lambda: one.connected, SOON, "a session")
        yield one


@pytest.fixture(scope="module")
def sasl_server() -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(users={"mm2": "sasl-secret"}) as server:
        yield server


@pytest.fixture
def observer(zookeeper: ZooKeeperServer) -> Iterator[KazooClient]:
    """An independent client of the same server."""
    client = KazooClient(zookeeper.address)
    client.start()
    yield client
    client.stop()
    client.close()


async def until_lost(one: Watched, words: str) -> Lost:
    def found() -> list[Lost]:
        return [event for event in one.history if isinstance(event, Lost) and words in event.reason]

    return (await until(found, SOON, f"the member reports: {words}"))[0]


async def test_generation_is_the_znode_version_of_the_round(
    zookeeper: ZooKeeperServer, name: str, observer: KazooClient
) -> None:
    async with member(zookeeper, name, "one") as one, member(zookeeper, name, "two") as two:
        await until_together(one, two)
        assert one.joined is not None
        path = settings(zookeeper, name).path
        _, stat = observer.get(f"{path}/round")
        assert stat.version == one.joined.generation
        assert sorted(observer.get_children(f"{path}/members")) == sorted(one.joined.members)
    await until(lambda: observer.get_children(f"{path}/members") == [], LATE, "both leave before their sessions expire")


async def test_round_write_requires_the_read_version_and_membership(zookeeper: ZooKeeperServer, name: str) -> None:
    stale = encode_round(RebalanceMessage(leader_id="zombie-0", members={}, answers={"zombie-0": "everything"}))
    server_settings = settings(zookeeper, name)
    async with member(zookeeper, name, "one") as one, session(server_settings) as zombie:
        read = (await one.until_joined()).generation
        own = await zombie.ask("create", f"{server_settings.path}/other-", b"", ephemeral=True, sequence=True)
        one.election.request_round()
        current = (await one.until_joined(after=read)).generation

        with pytest.raises(BadVersionError):
            await zombie.write_if(own, f"{server_settings.path}/round", stale, read)
        await zombie.ask("delete", own)
        with pytest.raises(NoNodeError):
            await zombie.write_if(own, f"{server_settings.path}/round", stale, current)

        raw, stat = await zombie.ask("get", f"{server_settings.path}/round")
        assert stat.version == current
        assert raw != stale
    assert one.losses == []


async def test_expired_session_is_replaced(zookeeper: ZooKeeperServer, name: str, observer: KazooClient) -> None:
    async with member(zookeeper, name, "one") as one:
        before = await one.until_joined()
        _, stat = observer.get(f"{settings(zookeeper, name).path}/members/{before.member_id}")
        await asyncio.to_thread(end_session, zookeeper, one)
        after = await one.until_joined(after=before.generation)
        assert after.member_id != before.member_id
        assert "the session expired" in one.losses[0].reason
        _, new = observer.get(f"{settings(zookeeper, name).path}/members/{after.member_id}")
        assert new.ephemeralOwner != stat.ephemeralOwner


def end_session(server: ZooKeeperServer, one: Watched) -> None:
    """Expire a session: take it over with its password, as kazoo's tests do, and close it."""
    assert isinstance(one.election, ZooKeeperElection)
    assert one.election._session is not None
    thief = KazooClient(server.address, client_id=one.election._session._client.client_id)
    thief.start()
    thief.stop()
    thief.close()


async def test_deleted_member_znode_is_recreated(zookeeper: ZooKeeperServer, name: str, observer: KazooClient) -> None:
    async with member(zookeeper, name, "one") as one, member(zookeeper, name, "two") as two:
        await until_together(one, two)
        assert one.joined is not None
        before = one.joined
        observer.delete(f"{settings(zookeeper, name).path}/members/{before.member_id}")
        await one.until_joined(after=before.generation)
        await until_together(one, two)
        assert "this node's member znode was removed" in one.losses[0].reason
    assert two.losses == []


async def test_member_with_unknown_format_gets_no_assignment(
    zookeeper: ZooKeeperServer, name: str, observer: KazooClient
) -> None:
    async with member(zookeeper, name, "one") as one:
        before = await one.until_joined()
        path = f"{settings(zookeeper, name).path}/members/later-"
        observer.create(path, b"\xff of a later version", ephemeral=True, sequence=True)
        after = await one.until_joined(after=before.generation)
        assert after.is_leader
        assert list(after.members) == [before.member_id]


@pytest.mark.parametrize(
    ("lost", "generation"),
    [(rb"/members/[0-9a-f]{12}-\x00", 1), (rb'"answer":', 2)],
    ids=["of entering", "of a round"],
)
async def test_lost_response_creates_no_second_member(
    zookeeper: ZooKeeperServer, name: str, observer: KazooClient, lost: bytes, generation: int
) -> None:
    server_settings = settings(zookeeper, name)
    async with CuttingProxy(zookeeper.address, lost).running() as proxy:
        election = ZooKeeperElection(replace(server_settings, servers=(proxy.address,)), info("one"), names)
        async with watched(election) as one:
            joined = await one.until_joined()
            assert proxy.cuts == 1
            assert observer.get_children(f"{server_settings.path}/members") == [joined.member_id]
            assert joined.generation == generation  # an unnoticed write is followed by another round
        members = f"{server_settings.path}/members"
        await until(lambda: observer.get_children(members) == [], LATE, "it leaves before its session expires")


async def test_leader_with_unknown_format_is_reported(
    zookeeper: ZooKeeperServer, name: str, observer: KazooClient
) -> None:
    path = settings(zookeeper, name).path
    observer.create(f"{path}/members/later-", b"of a later version", ephemeral=True, sequence=True, makepath=True)
    observer.create(f"{path}/round", b"of a later version")
    async with member(zookeeper, name, "one") as one:
        await until_lost(one, "unknown format (different version?)")
        observer.set(f"{path}/round", b"")
        await until_lost(one, "waiting for the leader to start a rebalance")


async def test_shorter_session_timeout_of_the_server_applies(name: str) -> None:
    with ZooKeeperServer(properties={"maxSessionTimeout": "2000"}) as server:
        async with session(settings(server, name)) as one:
            await one.ask("exists", "/")
            assert one.timeout_ms == 2_000
        async with member(server, name, "one") as watched_one:
            await watched_one.until_joined()
            freeze(server.process)
            try:
                await until(lambda: watched_one.losses, 2.0 + 1.0, "the membership expires after the servers' timeout")
            finally:
                thaw(server.process)
            await until(lambda: watched_one.joined, SOON, "the node is a member again")


async def test_unresolvable_host_is_reported(name: str) -> None:
    nowhere = ZooKeeperSettings(servers=("no-such-host.invalid:2181",), path=f"/{name}", heartbeat_interval_ms=100)
    async with watched(ZooKeeperElection(nowhere, info("one"), names)) as one:
        await until_lost(one, "Cannot resolve no-such-host.invalid")


async def test_znodes_belong_to_the_digest_user_that_created_them(
    zookeeper: ZooKeeperServer, name: str, observer: KazooClient
) -> None:
    other = ZooKeeperAuth(scheme=AuthScheme.DIGEST, username="mm2", password="a guess")
    async with member(zookeeper, name, "one", DIGEST) as one, member(zookeeper, name, "two", DIGEST) as two:
        await until_together(one, two)
        with pytest.raises(NoAuthError):
            observer.get(f"{settings(zookeeper, name).path}/round")
        async with member(zookeeper, name, "three", other) as three:
            await until_lost(three, "the znodes belong to another user")
        async with member(zookeeper, name, "four") as four:
            await until_lost(four, "the znodes belong to another user")
    assert one.losses == two.losses == []


async def test_only_sasl_users_are_admitted(sasl_server: ZooKeeperServer, name: str) -> None:
    wrong = ZooKeeperAuth(scheme=AuthScheme.SASL, username="mm2", password="a guess")
    server = sasl_server
    async with member(server, name, "one", SASL) as one, member(server, name, "two", SASL) as two:
        await until_together(one, two)
        async with member(server, name, "three", wrong) as three:
            await until_lost(three, "the servers rejected the user or password")
        async with member(server, name, "four") as four:
            await until_lost(four, "the servers require SASL authentication")
    assert one.losses == two.losses == []


@pytest.mark.parametrize("auth", [DIGEST, SASL])
async def test_passwords_are_not_logged(
    zookeeper: ZooKeeperServer,
    sasl_server: ZooKeeperServer,
    name: str,
    auth: ZooKeeperAuth,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    async with member(sasl_server if auth is SASL else zookeeper, name, "one", auth) as one:
        assert isinstance(await one.until_joined(), Joined)
    assert "Sending request" in caplog.text
    assert auth.password not in caplog.text
    assert auth.password not in repr(auth)


async def test_expired_session_sends_no_requests(zookeeper: ZooKeeperServer, name: str) -> None:
    async with session(settings(zookeeper, name)) as one:
        await one.ask("exists", "/")
    with pytest.raises(SessionOver):
        await one.ask("exists", "/")


def held_group(generation: int, own: str, *others: str) -> Joined:
    """Return a rebalance of the held group, as the node ``own`` receives it."""
    members = {f"member {node}": info(node) for node in (own, *others)}
    own_id = f"member {own}"
    return Joined(generation=generation, member_id=own_id, leader_id=own_id, members=members, assignment=None)


async def test_member_of_an_earlier_release_is_removed_by_its_node_id(zookeeper: ZooKeeperServer, name: str) -> None:
    """Its znode does not name its membership in the group. The leader is removed; it is alive, so it joins again."""
    async with member(zookeeper, name, "one") as one, member(zookeeper, name, "two") as two:
        await until_together(one, two)
        assert one.joined is not None
        leader, follower = (one, two) if one.joined.is_leader else (two, one)
        before = await leader.until_joined(leading=True)
        assert isinstance(follower.election, ZooKeeperElection)
        node = "two" if leader is one else "one"
        for generation, others in enumerate(((str(before.leader_node), "unknown"), ())):
            follower.election.group_changed(held_group(generation, node, *others))
        await follower.until_joined(after=before.generation, leading=True)
        await until_together(one, two)
        assert "member znode was removed" in leader.losses[0].reason
        assert follower.losses == []
