"""Elections over TLS: a real ZooKeeper whose secure port requires client certificates."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import javaproperties
import pytest

from mm2.config.load import load
from mm2.core.settings.tls import TlsSettings
from mm2.core.settings.zookeeper import ZooKeeperSettings
from mm2.election.protocol import Joined
from mm2.election.zookeeper.zookeeper_election import ZooKeeperElection
from mm2.election.zookeeper.zookeeper_session import TlsSockets, ZooKeeperSession, _Handler
from tests.integration.election.members import SOON, Watched, info, names, until_together, watched
from tests.integration.election.stores import HEARTBEAT_MS, SESSION_MS
from tests.lab import scratch
from tests.lab.key_stores import STORE_PASSWORD, write_key_store, write_trust_store
from tests.lab.listeners import Authority
from tests.lab.ports import HOST
from tests.lab.waiting import until
from tests.lab.zookeeper import ZooKeeperServer

AUTHORITY = Authority()
BOB = AUTHORITY.client("bob")
MUTUAL = TlsSettings(ca_pem=AUTHORITY.ca_pem, certificate_pem=BOB.certificate, key_pem=BOB.key)
PATIENCE = 5.0  # seconds until a select without anything to read returns


@pytest.fixture(scope="module", params=["TLSv1.2", "TLSv1.3"])
def secured(request: pytest.FixtureRequest) -> Iterator[ZooKeeperServer]:
    """In TLS 1.3 a server rejects a client certificate after the handshake."""
    pems = AUTHORITY.write_server_pems(scratch.directory("zookeeper-tls"))
    protocol = {"ssl.protocol": request.param, "ssl.enabledProtocols": request.param}
    if request.param == "TLSv1.3":
        protocol["ssl.ciphersuites"] = "TLS_AES_256_GCM_SHA384"  # none of its default suites is for this version
    with ZooKeeperServer("zookeeper-tls", tls=pems, properties=protocol) as server:
        yield server


def settings(server: ZooKeeperServer, name: str, tls: TlsSettings | None, *, address: str = "") -> ZooKeeperSettings:
    return ZooKeeperSettings(
        servers=(address or server.secure_address,),
        path=f"/chroot of {name}/mm2/A->B",
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        tls=tls,
    )


@asynccontextmanager
async def member(own: ZooKeeperSettings, node: str) -> AsyncIterator[Watched]:
    async with watched(ZooKeeperElection(own, info(node), names)) as one:
        yield one


async def test_members_with_client_certificates_elect_a_leader(secured: ZooKeeperServer, name: str) -> None:
    own = settings(secured, name, MUTUAL)
    async with member(own, "one") as one, member(own, "two") as two:
        await until_together(one, two)
        assert isinstance(one.joined, Joined)
    assert one.losses == two.losses == []


async def test_stores_of_java_in_the_file(secured: ZooKeeperServer, name: str, tmp_path: Path) -> None:
    trusted = write_trust_store(tmp_path / "trust.jks", AUTHORITY.ca_pem, "JKS")
    own = write_key_store(tmp_path / "key.p12", BOB, "PKCS12")
    properties = {
        "clusters": "A, B",
        "A.bootstrap.servers": "a:9092",
        "B.bootstrap.servers": "b:9092",
        "A->B.enabled": "true",
        "mm2.election": "zookeeper",
        "mm2.zookeeper.connect": f"{secured.secure_address}/{name}",
        "mm2.zookeeper.ssl.client.enable": "true",
        "mm2.zookeeper.ssl.truststore.location": str(trusted),
        "mm2.zookeeper.ssl.truststore.password": STORE_PASSWORD,
        "mm2.zookeeper.ssl.keystore.location": str(own),
        "mm2.zookeeper.ssl.keystore.password": STORE_PASSWORD,
    }
    (tmp_path / "mm2.properties").write_text(javaproperties.dumps(properties, timestamp=False))
    loaded = load(tmp_path / "mm2.properties").settings
    assert loaded is not None
    election = loaded.flows[0].election
    assert isinstance(election, ZooKeeperSettings)
    async with member(election, "one") as one:
        assert isinstance(await one.until_joined(), Joined)


async def test_data_that_is_decrypted_already_is_readable(tmp_path: Path) -> None:
    """Two answers in one TLS record: after the first was read, the system reports nothing to read."""
    pems = AUTHORITY.write_server_pems(tmp_path)
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(pems.keystore)
    ours, theirs = socket.socketpair()

    def answer() -> None:
        with server_context.wrap_socket(theirs, server_side=True) as server:
            server.sendall(b"one two")
            server.recv(1)  # until the client has read

    thread = threading.Thread(target=answer)
    thread.start()
    with TlsSockets(TlsSettings(ca_pem=AUTHORITY.ca_pem)).encrypt(ours, HOST, SOON) as client:
        assert client.recv(4) == b"one "
        handler = _Handler(SESSION_MS, None)
        began = time.monotonic()
        assert handler.select([client], [], [], PATIENCE)[0] == [client]
        assert time.monotonic() - began < PATIENCE / 2
        assert client.recv(3) == b"two"
        client.sendall(b"x")
    thread.join()


WRONG: dict[str, tuple[TlsSettings | None, str]] = {
    "unknown authority": (
        replace(MUTUAL, ca_pem=Authority().ca_pem),
        "the server's certificate is not trusted; check mm2.zookeeper.ssl.truststore.*",
    ),
    "no client certificate": (
        TlsSettings(ca_pem=AUTHORITY.ca_pem),
        "the server rejected the client certificate, or requires one; check mm2.zookeeper.ssl.keystore.*",
    ),
    "client certificate of an unknown authority": (
        replace(MUTUAL, certificate_pem=(EVE := Authority().client("eve")).certificate, key_pem=EVE.key),
        "the server rejected the client certificate, or requires one; check mm2.zookeeper.ssl.keystore.*",
    ),
}


@pytest.mark.parametrize(("tls", "reason"), WRONG.values(), ids=WRONG)
async def test_reason_names_the_keys_to_check(
    secured: ZooKeeperServer, name: str, tls: TlsSettings, reason: str
) -> None:
    await reported(settings(secured, name, tls), reason)


async def test_certificate_of_another_host(name: str) -> None:
    pems = Authority()
    elsewhere = scratch.directory("zookeeper-elsewhere") / "keystore.pem"
    identity = pems.client("elsewhere")
    elsewhere.write_text(identity.key + identity.certificate)
    with ZooKeeperServer(
        "zookeeper-elsewhere", tls=replace(pems.write_server_pems(elsewhere.parent / ".."), keystore=elsewhere)
    ) as server:
        tls = TlsSettings(ca_pem=pems.ca_pem, certificate_pem=identity.certificate, key_pem=identity.key)
        await reported(
            settings(server, name, tls),
            "the server's certificate is for another host; check mm2.zookeeper.ssl.endpoint.identification.algorithm",
        )
        async with ZooKeeperSession(settings(server, name, replace(tls, check_hostname=False)), lambda: None) as one:
            await until(lambda: one.connected, SOON, "a session without verification of the host name")


async def test_tls_to_a_port_without_it(secured: ZooKeeperServer, name: str) -> None:
    await reported(settings(secured, name, MUTUAL, address=secured.address), "check mm2.zookeeper.ssl.client.enable")


async def reported(own: ZooKeeperSettings, reason: str) -> None:
    """Wait until the session's last_error contains ``reason``, in one line."""
    async with ZooKeeperSession(own, lambda: None) as session:
        await until(lambda: reason in session.last_error, SOON, f"the session reports: {reason}")
        assert "\n" not in session.last_error
        assert not session.connected
