"""What is ZooKeeper's own in an election: version checks, identities, sessions that the servers shorten or end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NoAuthError, NoNodeError

from mm2.core.zookeeper_settings import AuthScheme, ZooKeeperAuth, ZooKeeperSettings
from mm2.election.protocol import Joined, Lost
from mm2.election.round_messages import Round, encode_round
from mm2.election.zookeeper import ZooKeeperElection
from mm2.election.zookeeper_session import SessionOver, ZooKeeperSession
from tests.integration.election.cutting_proxy import CuttingProxy
from tests.integration.election.members import SOON, Watched, info, names, until_together, watched
from tests.integration.election.stores import HEARTBEAT_MS, SESSION_MS, freeze, thaw
from tests.lab.waiting import until
from tests.lab.zookeeper import ZooKeeperServer

LATE = 3.0  # seconds for a busy machine to notice
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
async def session(told: ZooKeeperSettings) -> AsyncIterator[ZooKeeperSession]:
    async with ZooKeeperSession(told, lambda: None) as one:
        await until(lambda: one.connected, SOON, "a session")
        yield one


@pytest.fixture
def looking(zookeeper: ZooKeeperServer) -> Iterator[KazooClient]:
    """Another program at the same server."""
    client = KazooClient(zookeeper.address)
    client.start()
    yield client
    client.stop()
    client.close()


async def until_lost(one: Watched, words: str) -> Lost:
    def found() -> list[Lost]:
        return [event for event in one.history if isinstance(event, Lost) and words in event.reason]

    return (await until(found, SOON, f"it says: {words}"))[0]


async def test_the_generation_is_the_version_of_the_round(
    zookeeper: ZooKeeperServer, name: str, looking: KazooClient
) -> None:
    async with member(zookeeper, name, "one") as one, member(zookeeper, name, "two") as two:
        await until_together(one, two)
        assert one.joined is not None
        path = settings(zookeeper, name).path
        _, stat = looking.get(f"{path}/round")
        assert stat.version == one.joined.generation
        assert sorted(looking.get_children(f"{path}/members")) == sorted(one.joined.members)
    assert looking.get_children(f"{path}/members") == []


async def test_a_round_is_written_only_on_what_was_read_and_by_who_is_a_member(
    zookeeper: ZooKeeperServer, name: str
) -> None:
    stale = encode_round(Round(leader_id="zombie-0", members={}, answers={"zombie-0": "everything"}))
    told = settings(zookeeper, name)
    async with member(zookeeper, name, "one") as one, session(told) as zombie:
        read = (await one.until_joined()).generation
        own = await zombie.ask("create", f"{told.path}/other-", b"", ephemeral=True, sequence=True)
        one.election.request_round()
        current = (await one.until_joined(after=read)).generation

        with pytest.raises(BadVersionError):
            await zombie.write_if(own, f"{told.path}/round", stale, read)
        await zombie.ask("delete", own)
        with pytest.raises(NoNodeError):
            await zombie.write_if(own, f"{told.path}/round", stale, current)

        raw, stat = await zombie.ask("get", f"{told.path}/round")
        assert stat.version == current
        assert raw != stale
    assert one.losses == []


async def test_a_session_that_the_servers_end_is_followed_by_a_new_one(
    zookeeper: ZooKeeperServer, name: str, looking: KazooClient
) -> None:
    async with member(zookeeper, name, "one") as one:
        before = await one.until_joined()
        _, stat = looking.get(f"{settings(zookeeper, name).path}/members/{before.member_id}")
        await asyncio.to_thread(end_session, zookeeper, one)
        after = await one.until_joined(after=before.generation)
        assert after.member_id != before.member_id
        assert "the servers have not heard of us" in one.losses[0].reason
        _, new = looking.get(f"{settings(zookeeper, name).path}/members/{after.member_id}")
        assert new.ephemeralOwner != stat.ephemeralOwner


def end_session(server: ZooKeeperServer, one: Watched) -> None:
    """Take the session over with its password, as kazoo's own tests do, and close it: to its owner it has expired."""
    assert isinstance(one.election, ZooKeeperElection)
    assert one.election._session is not None
    thief = KazooClient(server.address, client_id=one.election._session._client.client_id)
    thief.start()
    thief.stop()
    thief.close()


async def test_a_member_znode_that_somebody_removes_is_made_again(
    zookeeper: ZooKeeperServer, name: str, looking: KazooClient
) -> None:
    async with member(zookeeper, name, "one") as one, member(zookeeper, name, "two") as two:
        await until_together(one, two)
        assert one.joined is not None
        before = one.joined
        looking.delete(f"{settings(zookeeper, name).path}/members/{before.member_id}")
        await one.until_joined(after=before.generation)
        await until_together(one, two)
        assert "our member znode was removed" in one.losses[0].reason
    assert two.losses == []


async def test_a_member_of_another_version_takes_part_and_gets_nothing(
    zookeeper: ZooKeeperServer, name: str, looking: KazooClient
) -> None:
    async with member(zookeeper, name, "one") as one:
        before = await one.until_joined()
        path = f"{settings(zookeeper, name).path}/members/later-"
        looking.create(path, b"\xff of a later version", ephemeral=True, sequence=True)
        after = await one.until_joined(after=before.generation)
        assert after.is_leader
        assert list(after.members) == [before.member_id]


@pytest.mark.parametrize(
    ("lost", "generation"),
    [(rb"/members/[0-9a-f]{12}-\x00", 1), (rb'"answers"', 2)],
    ids=["of entering", "of a round"],
)
async def test_an_answer_that_is_lost_makes_no_second_member(
    zookeeper: ZooKeeperServer, name: str, looking: KazooClient, lost: bytes, generation: int
) -> None:
    told = settings(zookeeper, name)
    async with CuttingProxy(zookeeper.address, lost).running() as proxy:
        election = ZooKeeperElection(replace(told, servers=(proxy.address,)), info("one"), names)
        async with watched(election) as one:
            joined = await one.until_joined()
            assert proxy.cuts == 1
            assert looking.get_children(f"{told.path}/members") == [joined.member_id]
            assert joined.generation == generation  # what was written without our knowing is followed by another
        assert looking.get_children(f"{told.path}/members") == []


async def test_a_leader_of_another_version_is_told(zookeeper: ZooKeeperServer, name: str, looking: KazooClient) -> None:
    path = settings(zookeeper, name).path
    looking.create(f"{path}/members/later-", b"of a later version", ephemeral=True, sequence=True, makepath=True)
    looking.create(f"{path}/round", b"of a later version")
    async with member(zookeeper, name, "one") as one:
        await until_lost(one, "does it run another version?")
        looking.set(f"{path}/round", b"")
        await until_lost(one, "waiting for the leader to begin a round")


async def test_a_shorter_session_than_asked_for_is_kept_to(name: str) -> None:
    with ZooKeeperServer(properties={"maxSessionTimeout": "2000"}) as server:
        async with session(settings(server, name)) as one:
            await one.ask("exists", "/")
            assert one.timeout_ms == 2_000
        async with member(server, name, "one") as watched_one:
            await watched_one.until_joined()
            freeze(server.process)
            try:
                await until(lambda: watched_one.losses, 2.0 + 1.0, "lost by the servers' timeout")
            finally:
                thaw(server.process)
            await until(lambda: watched_one.joined, SOON, "a member again")


async def test_a_name_that_nobody_knows_is_told(name: str) -> None:
    nowhere = ZooKeeperSettings(servers=("no-such-host.invalid:2181",), path=f"/{name}", heartbeat_interval_ms=100)
    async with watched(ZooKeeperElection(nowhere, info("one"), names)) as one:
        await until_lost(one, "Cannot resolve no-such-host.invalid")


async def test_znodes_belong_to_the_digest_user_that_made_them(
    zookeeper: ZooKeeperServer, name: str, looking: KazooClient
) -> None:
    other = ZooKeeperAuth(scheme=AuthScheme.DIGEST, username="mm2", password="a guess")
    async with member(zookeeper, name, "one", DIGEST) as one, member(zookeeper, name, "two", DIGEST) as two:
        await until_together(one, two)
        with pytest.raises(NoAuthError):
            looking.get(f"{settings(zookeeper, name).path}/round")
        async with member(zookeeper, name, "three", other) as three:
            await until_lost(three, "its znodes belong to another user")
        async with member(zookeeper, name, "four") as four:
            await until_lost(four, "its znodes belong to another user")
    assert one.losses == two.losses == []


async def test_sasl_users_are_let_in_and_nobody_else(name: str) -> None:
    wrong = ZooKeeperAuth(scheme=AuthScheme.SASL, username="mm2", password="a guess")
    with ZooKeeperServer(users={"mm2": "sasl-secret"}) as server:
        async with member(server, name, "one", SASL) as one, member(server, name, "two", SASL) as two:
            await until_together(one, two)
            async with member(server, name, "three", wrong) as three:
                await until_lost(three, "the servers refuse our user and password")
            async with member(server, name, "four") as four:
                await until_lost(four, "the servers demand that we authenticate")
        assert one.losses == two.losses == []


@pytest.mark.parametrize("auth", [DIGEST, SASL])
async def test_no_password_is_logged(name: str, auth: ZooKeeperAuth, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with ZooKeeperServer(users={"mm2": "sasl-secret"} if auth is SASL else None) as server:
        async with member(server, name, "one", auth) as one:
            assert isinstance(await one.until_joined(), Joined)
    assert "Sending request" in caplog.text
    assert auth.password not in caplog.text
    assert auth.password not in repr(auth)


async def test_nothing_is_asked_of_a_session_that_is_over(zookeeper: ZooKeeperServer, name: str) -> None:
    async with session(settings(zookeeper, name)) as one:
        await one.ask("exists", "/")
    with pytest.raises(SessionOver):
        await one.ask("exists", "/")
