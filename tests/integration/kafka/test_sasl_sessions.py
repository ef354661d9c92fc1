"""Sessions that brokers end (KIP-368): connections authenticate again in time, and nothing in flight is lost."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiokafka.protocol.admin import SaslAuthenticateRequest, SaslHandShakeRequest
from aiokafka.protocol.metadata import MetadataRequest

from mm2.core.settings.client import ClientSettings, SecurityProtocol
from mm2.core.settings.sasl import PasswordLogin, SaslMechanism
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.connection.connecting import Authentication
from mm2.kafka.errors import ClusterClosed, ClusterError
from mm2.kafka.sasl.login import Exchange, Login, LoginFailed
from mm2.kafka.sasl.logins import PasswordExchanges, Send
from mm2.kafka.sasl.session import SessionShares
from tests.integration.kafka.clients import settings
from tests.lab.cluster import KafkaCluster
from tests.lab.listeners import Listener
from tests.lab.waiting import require_within

SESSION_MS = 2_000
SESSIONS = 4  # that a test lasts
PLAIN, SCRAM = SaslMechanism.PLAIN, SaslMechanism.SCRAM_SHA_256


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    listener = Listener(protocol=SecurityProtocol.SASL_PLAINTEXT, mechanisms=(PLAIN, SCRAM))
    properties = {"connections.max.reauth.ms": str(SESSION_MS)}
    with KafkaCluster("A", listeners=(listener,), users={"alice": "geheim"}, properties=properties) as cluster:
        yield cluster


EARLY = SessionShares(earliest=0.6, latest=0.7)
"""Sessions are renewed 0.6 s before they end instead of 0.1 s, in which a busy machine may not run the client."""


def client_of(kafka: KafkaCluster, mechanism: SaslMechanism) -> ClientSettings:
    login = PasswordLogin(mechanism=mechanism, username="alice", password="geheim")
    protocol = SecurityProtocol.SASL_PLAINTEXT
    return settings(kafka, "SASL_PLAINTEXT", security_protocol=protocol, sasl=login)


def local_port(cluster: Cluster) -> int:
    """The port of the connection to the broker, which tells one connection from the next."""
    connection = cluster._connections[1, "default"]
    assert connection._live is not None
    port: int = connection._live.connection._writer.get_extra_info("sockname")[1]
    return port


@pytest.mark.parametrize("mechanism", [PLAIN, pytest.param(SCRAM, marks=pytest.mark.long)])  # as PLAIN
async def test_a_busy_connection_outlives_its_sessions(kafka: KafkaCluster, mechanism: SaslMechanism) -> None:
    """Several requests are always in flight, also while the connection authenticates again."""
    async with Cluster(client_of(kafka, mechanism), authentication=Authentication(shares=EARLY)) as cluster:
        await cluster.any_node()
        await cluster.versions(1)
        first = local_port(cluster)
        ends = time.monotonic() + SESSIONS * SESSION_MS / 1000
        answered = 0

        async def ask() -> None:
            nonlocal answered
            while time.monotonic() < ends:
                await cluster.send(1, MetadataRequest([]))
                answered += 1

        await asyncio.gather(*(ask() for _ in range(5)))
        assert local_port(cluster) == first, "the broker has closed the connection, or it was replaced"
    assert answered > 100


async def test_an_idle_connection_authenticates_before_its_next_request(kafka: KafkaCluster) -> None:
    async with Cluster(client_of(kafka, PLAIN)) as cluster:
        await cluster.any_node()
        await cluster.versions(1)
        first = local_port(cluster)
        await asyncio.sleep(SESSION_MS / 1000 * 1.5)
        await cluster.send(1, MetadataRequest([]))
        assert local_port(cluster) == first


async def test_the_session_is_needed(kafka: KafkaCluster) -> None:
    """Without a second authentication the broker does close the connection: the other tests prove something."""

    async def forgets(send: Send, mechanism: str, login: Login, host: str) -> None:
        await send(SaslHandShakeRequest(mechanism))
        for message in login.exchange(host):
            await send(SaslAuthenticateRequest(message))
            break

    authentication = Authentication(authenticate=forgets)
    async with Cluster(client_of(kafka, PLAIN), authentication=authentication) as cluster:
        await cluster.any_node()
        await cluster.versions(1)
        await asyncio.sleep(SESSION_MS / 1000 * 1.5)
        with pytest.raises(ClusterError, match="closed the connection"):
            await cluster.send(1, MetadataRequest([]))


async def ask_for_ever(cluster: Cluster) -> None:
    while True:
        await cluster.send(1, MetadataRequest([]))


class FailingRenewals:
    """A login whose credentials cannot be renewed for a while, or not be used, as without a ticket for the broker."""

    def __init__(self, login: PasswordLogin, *, at_exchange: bool) -> None:
        self._login = PasswordExchanges(login)
        self._at_exchange = at_exchange
        self.is_due = False
        self.failures = 0

    def renew(self) -> None:
        if not self._at_exchange:
            self._fail()

    def exchange(self, host: str) -> Exchange:
        if self.is_due:
            self._fail()
        yield from self._login.exchange(host)

    def _fail(self) -> None:
        self.failures += 1
        raise LoginFailed("the token endpoint does not answer", "sasl.oauthbearer.token.endpoint.url")


@pytest.mark.parametrize("at_exchange", [False, True])
async def test_a_session_is_used_to_its_end_if_credentials_cannot_be_renewed(
    kafka: KafkaCluster, caplog: pytest.LogCaptureFixture, at_exchange: bool
) -> None:
    client = replace(client_of(kafka, PLAIN), reconnect_backoff_ms=10)
    assert isinstance(client.sasl, PasswordLogin)
    login = FailingRenewals(client.sasl, at_exchange=at_exchange)
    shares = replace(EARLY, usable=0.8)  # 0.98 leaves a request 40 ms to reach the broker
    authentication = Authentication(login_of=lambda _: login, shares=shares)
    async with Cluster(client, authentication=authentication) as cluster:
        await cluster.any_node()
        await cluster.versions(1)
        first = local_port(cluster)
        began = time.monotonic()
        login.is_due = True
        with pytest.raises(ClusterError, match=r"does not answer: check A\.sasl\.oauthbearer\.token\.endpoint\.url"):
            await ask_for_ever(cluster)
        assert time.monotonic() - began > 0.5 * SESSION_MS / 1000, "it was given up before the session ended"
        assert "connection lost" not in caplog.text, "the broker has closed the connection"
        login.is_due = False
        await cluster.send(1, MetadataRequest([]))
        assert local_port(cluster) != first
    assert login.failures > 1


class PausedExchange:
    """A login whose second exchange stops halfway, after an answer of the broker, until it is released."""

    def __init__(self, login: PasswordLogin) -> None:
        self._login = PasswordExchanges(login)
        self._exchanges = 0
        self.is_due = False
        self.halfway = threading.Event()
        self.released = threading.Event()

    def renew(self) -> None:
        pass

    def exchange(self, host: str) -> Exchange:
        self._exchanges += 1
        pauses = self._exchanges == 2
        exchange = self._login.exchange(host)
        message = next(exchange)
        while True:
            answer = yield message
            if pauses and not self.halfway.is_set():
                self.halfway.set()
                assert self.released.wait(90)
            try:
                message = exchange.send(answer)
            except StopIteration:
                return


@asynccontextmanager
async def authenticating_again(
    kafka: KafkaCluster,
) -> AsyncIterator[tuple[Cluster, PausedExchange, asyncio.Task[None]]]:
    """A client halfway through its second authentication, and the request that waits for it."""
    client = client_of(kafka, SCRAM)
    assert isinstance(client.sasl, PasswordLogin)
    login = PausedExchange(client.sasl)
    used: list[Login] = [PasswordExchanges(client.sasl)]  # the last one
    async with Cluster(client, authentication=Authentication(login_of=lambda _: used[-1])) as cluster:
        await cluster.any_node()
        used.append(login)
        await cluster.versions(1)
        await asyncio.sleep(SESSION_MS / 1000)
        asking = asyncio.create_task(cluster.send(1, MetadataRequest([])))
        try:
            assert await asyncio.to_thread(login.halfway.wait, 60)
            yield cluster, login, asking
        finally:
            login.released.set()


async def test_a_cancelled_request_does_not_interrupt_an_authentication(kafka: KafkaCluster) -> None:
    """The broker expects the rest of the exchange on this connection, and nothing else."""
    async with authenticating_again(kafka) as (cluster, login, asking):
        first = local_port(cluster)
        asking.cancel()
        await asyncio.wait([asking])
        asyncio.get_running_loop().call_later(0.5, login.released.set)
        await cluster.send(1, MetadataRequest([]))
        assert local_port(cluster) == first


async def test_a_connection_that_is_closed_while_it_authenticates_is_replaced(kafka: KafkaCluster) -> None:
    async with authenticating_again(kafka) as (cluster, login, asking):
        first = local_port(cluster)
        cluster.disconnect(1, "default")
        login.released.set()
        await asking
        assert local_port(cluster) != first


async def test_a_client_is_closed_while_it_authenticates(kafka: KafkaCluster) -> None:
    async with authenticating_again(kafka) as (cluster, _, asking):
        began = time.monotonic()
        await cluster.close()
        with pytest.raises(ClusterClosed):
            await asking
        require_within(time.monotonic() - began, 15.0, "the client is closed")


async def test_requests_keep_their_order_across_an_authentication(
    kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with authenticating_again(kafka) as (cluster, login, asking):
        answered: list[int] = []

        async def ask(number: int) -> None:
            await cluster.send(1, MetadataRequest([]))
            answered.append(number)

        later = [asyncio.create_task(ask(number)) for number in range(1, 6)]
        await asyncio.sleep(0.1)
        login.released.set()
        await asyncio.gather(asking, *later)
    assert answered == [1, 2, 3, 4, 5]
