"""What can go wrong with Kerberos: each error is one clear line that names the key, and ends when its cause does."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from mm2.core.kerberos.ticket_cache import read_ticket_cache
from mm2.core.settings.kerberos import KerberosLogin
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterError
from tests.integration.kerberos.clients import LISTENER, client, keys_of
from tests.lab.cluster import KafkaCluster
from tests.lab.kdc import REALM, SERVICE, Kdc
from tests.lab.ports import HOST
from tests.lab.waiting import require_within, until

pytestmark = [pytest.mark.needs("gssapi"), pytest.mark.needs("krb5kdc")]

MENDED = 60.0  # seconds: pauses grow to one second (min_seconds), and a refused ticket is replaced after ten
SILENT = 20.0  # seconds until a KDC that does not answer is reported: ten, and a busy machine
ASKED_ONCE = 9.0  # seconds: less than the ten that another wait for the KDC would take
JAAS, SERVICE_NAME = r"check A\.sasl\.jaas\.config", r"check A\.sasl\.kerberos\.service\.name"


@pytest.fixture(scope="module")
def kdc() -> Iterator[Kdc]:
    with Kdc() as kdc:
        yield kdc


@pytest.fixture(scope="module")
def kafka(kdc: Kdc) -> Iterator[KafkaCluster]:
    with KafkaCluster("A", **kdc.broker(LISTENER)) as cluster:
        yield cluster


async def test_a_client_logs_in(kdc: Kdc, kafka: KafkaCluster) -> None:
    kdc.add("alice")
    async with Cluster(client(kafka, keys_of(kdc, "alice", kdc.keytab("alice")))) as cluster:
        assert await cluster.any_node()


async def test_an_old_keytab(kdc: Kdc, kafka: KafkaCluster) -> None:
    kdc.add("old")
    keytab = kdc.keytab("old")
    kdc.keytab("old")
    login = keys_of(kdc, "old", keytab)
    with pytest.raises(ClusterError, match=rf"SASL GSSAPI: the KDC rejects the key of old@{REALM}: .*: {JAAS}$"):
        await once(kafka, login)
    await once(kafka, keys_of(kdc, "old", kdc.keytab("old")))


async def test_an_unknown_principal(kdc: Kdc, kafka: KafkaCluster) -> None:
    kdc.add("gone")
    login = keys_of(kdc, "gone", kdc.keytab("gone"))
    kdc.delete("gone")
    async with failing(kafka, login, rf"the KDC does not know the principal gone@{REALM}: .*: {JAAS}$"):
        pass
    kdc.add("gone")
    await once(kafka, keys_of(kdc, "gone", kdc.keytab("gone")))


async def test_an_unknown_service(kdc: Kdc, kafka: KafkaCluster) -> None:
    kdc.add("carol")
    keytab = kdc.keytab("carol")
    host = SERVICE.partition("/")[2]
    wrong = keys_of(kdc, "carol", keytab, service_name="broker")
    async with failing(kafka, wrong, f"does not know the broker's principal broker/{host}: .*: {SERVICE_NAME}$"):
        pass
    await once(kafka, keys_of(kdc, "carol", keytab))


async def test_an_expired_ticket(kdc: Kdc, kafka: KafkaCluster) -> None:
    kdc.add("dave")
    keytab = kdc.keytab("dave")
    file = kdc.kinit(keytab, "dave", kdc.directory / "dave.cache", "-l", "1s")
    await asyncio.sleep(2)
    login = cached(keys_of(kdc, "dave", keytab), str(file))
    async with failing(kafka, login, rf"the ticket of dave@{REALM} has expired: run kinit: {JAAS}$") as cluster:
        kdc.kinit(keytab, "dave", file, "-l", "1h")
        await mended(cluster)


async def test_a_ticket_cache_is_renewed(kdc: Kdc, kafka: KafkaCluster) -> None:
    """With kinit -R, ahead of the expiry."""
    kdc.add("erin")
    keytab = kdc.keytab("erin")
    file = kdc.kinit(keytab, "erin", kdc.directory / "erin.cache", "-l", "10s", "-r", "1h")
    first = read_ticket_cache(file.read_bytes()).ticket
    login = cached(keys_of(kdc, "erin", keytab), str(file))
    async with Cluster(client(kafka, login)) as cluster:
        await cluster.any_node()
        await until(
            lambda: read_ticket_cache(file.read_bytes()).ticket.end > first.end + 10, 60, "the ticket was renewed twice"
        )
    await asyncio.sleep(max(0.0, first.end - time.time()))
    await once(kafka, login)


async def test_a_ticket_cache_is_renewed_long_before_it_expires(kdc: Kdc, kafka: KafkaCluster) -> None:
    kdc.add("mary")
    keytab = kdc.keytab("mary")
    file = kdc.kinit(keytab, "mary", kdc.directory / "mary.cache", "-l", "60s", "-r", "1h")
    first = read_ticket_cache(file.read_bytes()).ticket
    login = cached(keys_of(kdc, "mary", keytab), str(file))
    login = replace(login, renewal=replace(login.renewal, window_factor=0.05, jitter=0.0))  # after 3 s
    async with Cluster(client(kafka, login)) as cluster:
        await cluster.any_node()
        await until(
            lambda: read_ticket_cache(file.read_bytes()).ticket.end > first.end, 50, "the ticket was renewed early"
        )


async def test_the_keytab_is_used_without_a_valid_ticket(kdc: Kdc, kafka: KafkaCluster) -> None:
    kdc.add("frank")
    keytab = kdc.keytab("frank")
    file = kdc.kinit(keytab, "frank", kdc.directory / "frank.cache", "-l", "1s")
    login = keys_of(kdc, "frank", keytab)
    await asyncio.sleep(2)
    await once(kafka, replace(cached(login, str(file)), keytab=login.keytab))


async def test_no_kdc(kdc: Kdc, kafka: KafkaCluster) -> None:
    """One that refuses connections is reported at once."""
    kdc.add("grace", "heidi")
    login, other = (keys_of(kdc, user, kdc.keytab(user)) for user in ("grace", "heidi"))
    await once(kafka, other)
    kdc.stop()
    try:
        async with failing(kafka, login, rf"no KDC answers for grace@{REALM}: .*: {JAAS}$") as cluster:
            await once(kafka, other)  # its tickets are valid
            kdc.resume()
            await mended(cluster)
    finally:
        if not kdc.process.running:
            kdc.resume()


async def test_a_silent_kdc_blocks_no_other_client(kdc: Kdc, kafka: KafkaCluster) -> None:
    kdc.add("ivan", "judy")
    login, other = (keys_of(kdc, user, kdc.keytab(user)) for user in ("ivan", "judy"))
    await once(kafka, other)
    kdc.stop()
    try:
        with silence(kdc.port):
            began = time.monotonic()
            with pytest.raises(ClusterError, match=rf"no KDC answers for ivan@{REALM} within 10 s: .*: {JAAS}$"):
                await asyncio.gather(once(kafka, login), once(kafka, other))
            require_within(time.monotonic() - began, SILENT, "the KDC that does not answer is reported")
            began = time.monotonic()
            with pytest.raises(ClusterError, match="no KDC answers"):
                await once(kafka, login)
            require_within(time.monotonic() - began, ASKED_ONCE, "the next client does not wait for the KDC again")
    finally:
        kdc.resume()


@pytest.mark.needs("faketime")
async def test_clocks_that_differ(kdc: Kdc, kafka: KafkaCluster) -> None:
    kdc.add("kim")
    exact = kdc.client_conf(kdc_timesync="0")  # otherwise the client corrects its clock by the KDC's
    login = keys_of(kdc, "kim", kdc.keytab("kim"), krb5_conf=exact)
    kdc.stop()
    kdc.resume(clock="+600s")
    try:
        async with failing(
            kafka, login, rf"the clocks of this host and the KDC differ too much: .*: {JAAS}$"
        ) as cluster:
            kdc.stop()
            kdc.resume()
            await mended(cluster)
    finally:
        kdc.stop()
        kdc.resume()


async def test_a_broker_that_rejects_tickets(kdc: Kdc, kafka: KafkaCluster) -> None:
    """Its keytab is older than its key in the KDC, until it gets another one."""
    kdc.add("leo")
    login = keys_of(kdc, "leo", kdc.keytab("leo"))
    newer = kdc.keytab(SERVICE)
    match = rf"SASL GSSAPI: authentication of user leo@{REALM} failed: .*: {JAAS}$"
    async with failing(kafka, login, match) as cluster:
        kdc.service_keytab.write_bytes(newer.read_bytes())
        await mended(cluster)


async def once(kafka: KafkaCluster, login: KerberosLogin) -> None:
    async with Cluster(client(kafka, login)) as cluster:
        await cluster.any_node()


@asynccontextmanager
async def failing(kafka: KafkaCluster, login: KerberosLogin, match: str) -> AsyncIterator[Cluster]:
    """A client whose first request fails with the message."""
    async with Cluster(client(kafka, login)) as cluster:
        with pytest.raises(ClusterError, match=match) as error:
            await cluster.any_node()
        assert "\n" not in str(error.value)
        yield cluster


async def mended(cluster: Cluster) -> None:
    """The same client recovers by itself."""
    failures: list[str] = []

    async def answers() -> bool:
        try:
            await cluster.any_node()
        except ClusterError as error:
            failures.append(str(error))
            return False
        return True

    await until(answers, MENDED, f"the client has recovered ({failures[-1:]})")


def cached(login: KerberosLogin, file: str) -> KerberosLogin:
    """The same principal with a ticket cache instead of a keytab."""
    return replace(login, keytab=None, ticket_cache_file=file)


class silence:
    """Accepts connections and datagrams of a KDC's clients, and never answers."""

    def __init__(self, port: int) -> None:
        self._sockets = [socket.socket(), socket.socket(type=socket.SOCK_DGRAM)]
        for one in self._sockets:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((HOST, port))
        self._sockets[0].listen()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        for one in self._sockets:
            one.close()
