"""All security protocols on real listeners, and the errors if client and listener do not match."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.sasl import PasswordLogin, SaslMechanism
from mm2.core.settings.tls import TlsSettings
from mm2.kafka.errors import AuthenticationRefused, ClusterError, ConnectionLost, TlsRefused, Unreachable
from tests.integration.kafka.clients import connected
from tests.lab.cluster import KafkaCluster
from tests.lab.listeners import Listener

PLAINTEXT, SSL = SecurityProtocol.PLAINTEXT, SecurityProtocol.SSL
SASL_PLAINTEXT, SASL_SSL = SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL
PLAIN = SaslMechanism.PLAIN
BUFFERS: tuple[dict[str, int], ...] = (
    {},
    {"send_buffer_bytes": 60_000, "receive_buffer_bytes": 60_000},
)  # opened by asyncio, and on our sockets
SCRAM_256, SCRAM_512 = SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512

LISTENERS = (
    Listener(protocol=SSL),
    Listener(protocol=SSL, name="MUTUAL", client_certificates=True),
    Listener(protocol=SASL_PLAINTEXT, mechanisms=(PLAIN, SCRAM_512)),
    Listener(protocol=SASL_SSL, mechanisms=(SCRAM_256,)),
)


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    with KafkaCluster("A", listeners=LISTENERS, users={"alice": "geheim,="}) as cluster:
        yield cluster


def alice(mechanism: SaslMechanism, password: str = "geheim,=", user: str = "alice") -> PasswordLogin:
    return PasswordLogin(mechanism=mechanism, username=user, password=password)


def tls(kafka: KafkaCluster, **other: str) -> TlsSettings:
    return TlsSettings(ca_pem=kafka.authority.ca_pem, **other)  # type: ignore[arg-type]


def mutual(kafka: KafkaCluster) -> TlsSettings:
    pems = kafka.authority.client("bob")
    return tls(kafka, certificate_pem=pems.certificate, key_pem=pems.key)


@pytest.mark.parametrize("buffers", BUFFERS, ids=["default buffers", "buffers"])
@pytest.mark.parametrize(
    ("listener", "protocol", "sasl"),
    [
        ("PLAINTEXT", PLAINTEXT, None),
        ("SSL", SSL, None),
        ("MUTUAL", SSL, None),
        ("SASL_PLAINTEXT", SASL_PLAINTEXT, alice(PLAIN)),
        ("SASL_PLAINTEXT", SASL_PLAINTEXT, alice(SCRAM_512)),
        ("SASL_SSL", SASL_SSL, alice(SCRAM_256)),
    ],
)
async def test_all_listeners_accept_matching_clients(
    kafka: KafkaCluster,
    listener: str,
    protocol: SecurityProtocol,
    sasl: PasswordLogin | None,
    buffers: dict[str, int],
) -> None:
    options: dict[str, Any] = {"security_protocol": protocol, "tls": mutual(kafka), "sasl": sasl, **buffers}
    async with connected(kafka, listener, **options) as cluster:
        metadata = await cluster.metadata([])
        assert f"{metadata.brokers[1].host}:{metadata.brokers[1].port}" == kafka.bootstrap_of(listener)
        await cluster.versions(1)  # over a connection to the advertised address


@pytest.mark.parametrize(
    ("listener", "protocol", "kind", "message"),
    [
        (
            "SSL",
            PLAINTEXT,
            TlsRefused,
            "the port requires TLS, which is not enabled here: check A.security.protocol (PLAINTEXT)",
        ),
        (
            "SASL_SSL",
            SASL_PLAINTEXT,
            TlsRefused,
            "the port requires TLS, which is not enabled here: check A.security.protocol",
        ),
        ("SASL_PLAINTEXT", PLAINTEXT, ConnectionLost, "immediately: does this port require TLS or SASL?"),
        ("SASL_SSL", SSL, ConnectionLost, "immediately: does this port require SASL or a client certificate?"),
        ("PLAINTEXT", SSL, ConnectionLost, "immediately: is this a port without TLS?"),
        ("SASL_PLAINTEXT", SASL_SSL, ConnectionLost, "immediately: is this a port without TLS?"),
        ("PLAINTEXT", SASL_PLAINTEXT, AuthenticationRefused, "the port does not use SASL: check A.security.protocol"),
        ("SSL", SASL_SSL, AuthenticationRefused, "the port does not use SASL: check A.security.protocol"),
    ],
)
async def test_wrong_security_protocol_is_diagnosed(
    kafka: KafkaCluster, listener: str, protocol: SecurityProtocol, kind: type[ClusterError], message: str
) -> None:
    options = {"security_protocol": protocol, "tls": mutual(kafka), "sasl": alice(PLAIN)}
    async with connected(kafka, listener, **options) as cluster:
        with pytest.raises(kind) as caught:
            await cluster.metadata([])
    assert message in str(caught.value)
    assert caught.value.retriable


async def test_certificates_are_verified_on_both_sides(kafka: KafkaCluster) -> None:
    async with connected(kafka, "MUTUAL", security_protocol=SSL, tls=tls(kafka)) as cluster:
        with pytest.raises(
            TlsRefused, match=r"rejected the client certificate, or requires one .*check A.ssl.keystore.\*"
        ):
            await cluster.metadata([])
    stranger = KafkaCluster("other").authority
    for untrusting in (TlsSettings(), TlsSettings(ca_pem=stranger.ca_pem)):
        async with connected(kafka, "SSL", security_protocol=SSL, tls=untrusting) as cluster:
            with pytest.raises(TlsRefused, match=r"is not trusted: .*check A.ssl.truststore.\*"):
                await cluster.metadata([])


@pytest.mark.parametrize("buffers", BUFFERS, ids=["default buffers", "buffers"])
async def test_host_name_is_verified_unless_disabled(kafka: KafkaCluster, buffers: dict[str, int]) -> None:
    """The certificates are for 127.0.0.1 and localhost; a forwarder gives the broker another address."""
    host, port = kafka.bootstrap_of("SSL").split(":")

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(host, int(port))
        await asyncio.gather(copy(reader, there_writer), copy(there_reader, writer))

    async with await asyncio.start_server(forward, "127.0.0.2", 0) as forwarder:
        elsewhere = ("127.0.0.2:%d" % forwarder.sockets[0].getsockname()[1],)  # noqa: UP031
        options: dict[str, Any] = {"security_protocol": SSL, "bootstrap_servers": elsewhere, **buffers}
        async with connected(kafka, tls=tls(kafka), **options) as cluster:
            with pytest.raises(TlsRefused, match=r"is for another host: .*127\.0\.0\.2"):
                await cluster.metadata([])
        loose = TlsSettings(ca_pem=kafka.authority.ca_pem, check_hostname=False)
        async with connected(kafka, tls=loose, **options) as cluster:
            await cluster.metadata([])


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        return  # one side closed the connection, which ends the forwarding
    finally:
        writer.close()


@pytest.mark.parametrize("mechanism", [PLAIN, SCRAM_512])
async def test_wrong_password_is_reported_without_revealing_it(kafka: KafkaCluster, mechanism: SaslMechanism) -> None:
    wrong = alice(mechanism, password="falsch")
    options = {"security_protocol": SASL_PLAINTEXT, "sasl": wrong}
    async with connected(kafka, "SASL_PLAINTEXT", **options) as cluster:
        with pytest.raises(AuthenticationRefused) as caught:
            await cluster.metadata([])
    assert f"SASL {mechanism}: authentication of user alice failed: " in str(caught.value)
    assert str(caught.value).endswith("check A.sasl.jaas.config")
    assert "falsch" not in str(caught.value)


async def test_sasl_mechanism_not_enabled_on_the_broker(kafka: KafkaCluster) -> None:
    options = {"security_protocol": SASL_PLAINTEXT, "sasl": alice(SCRAM_256)}
    async with connected(kafka, "SASL_PLAINTEXT", **options) as cluster:
        with pytest.raises(AuthenticationRefused, match=r"SCRAM-SHA-256 is not enabled on the broker: check A.sasl"):
            await cluster.metadata([])


async def test_ports_of_other_servers(kafka: KafkaCluster) -> None:
    async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(web, "127.0.0.1", 0) as server:
        address = (f"127.0.0.1:{server.sockets[0].getsockname()[1]}",)
        async with connected(kafka, bootstrap_servers=address) as cluster:
            with pytest.raises(Unreachable, match=r"an HTTP server answered: check A.bootstrap.servers"):
                await cluster.metadata([])


async def test_connection_errors_are_not_logged_as_warnings(
    kafka: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"security_protocol": SASL_PLAINTEXT, "sasl": alice(PLAIN, password="falsch")}
    for listener in ("SASL_PLAINTEXT", "SASL_SSL", "PLAINTEXT"):
        async with connected(kafka, listener, **options) as cluster:
            with pytest.raises(ClusterError):
                await cluster.metadata([])
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []
