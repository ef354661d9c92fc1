"""Diagnosis of connection failures, case by case; on real brokers in tests/integration/kafka/test_security.py."""

from __future__ import annotations

import asyncio
import socket
import ssl

import aiokafka.errors as aiokafka_errors
import pytest

from mm2.core.settings.client import ClientSettings, SecurityProtocol
from mm2.core.settings.oauth import OAuthLogin, SecretGrant, TokenEndpoint
from mm2.core.settings.sasl import PasswordLogin, SaslMechanism
from mm2.kafka.connection.diagnosis import BrokerEndpoint, explain, silent
from mm2.kafka.errors import (
    AuthenticationRefused,
    ClusterClosed,
    ClusterError,
    ConnectionLost,
    NotSupported,
    TlsRefused,
    Unreachable,
)

BOOTSTRAP = BrokerEndpoint(host="kafka", port=9092)
ADVERTISED = BrokerEndpoint(host="kafka", port=9092, advertised=True)


def said(
    error: BaseException,
    *,
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT,
    endpoint: BrokerEndpoint = BOOTSTRAP,
    has_responded: bool = False,
    alias: str = "A",
) -> ClusterError:
    settings = ClientSettings(
        bootstrap_servers=("kafka:9092",),
        alias=alias,
        security_protocol=protocol,
        sasl=PasswordLogin(mechanism=SaslMechanism.PLAIN, username="alice", password="geheim"),
    )
    return explain(error, endpoint, settings, has_responded=has_responded)


def lost(cause: BaseException) -> BaseException:
    """Return the error as aiokafka raises it when a connection ends."""
    error: BaseException = aiokafka_errors.KafkaConnectionError("Connection at kafka:9092 closed")
    error.__cause__ = cause
    return error


def test_unknown_host_names_the_key_or_the_brokers_setting() -> None:
    error = socket.gaierror(-2, "Name or service not known")
    assert str(said(error)) == "cluster A: kafka:9092: cannot resolve host kafka: check A.bootstrap.servers"
    assert "check advertised.listeners on the broker" in str(said(error, endpoint=ADVERTISED))
    assert str(said(error, alias="")) == "kafka:9092: cannot resolve host kafka: check bootstrap.servers"


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 9092)"),
        OSError("Multiple exceptions: [Errno 111] Connect call failed ('::1', 9092), [Errno 111] Connect call failed"),
    ],
)
def test_a_refused_connection(error: OSError) -> None:
    assert type(said(error)) is Unreachable
    assert "connection refused: is the broker down?" in str(said(error))


def test_silence() -> None:
    assert "timed out: is there a firewall" in str(said(TimeoutError()))


@pytest.mark.parametrize(
    ("protocol", "guess"),
    [
        (SecurityProtocol.PLAINTEXT, "does this port require TLS or SASL?"),
        (SecurityProtocol.SASL_PLAINTEXT, "does this port require TLS?"),
        (SecurityProtocol.SSL, "does this port require SASL or a client certificate?"),
        (SecurityProtocol.SASL_SSL, "does this port require a client certificate?"),
    ],
)
def test_a_broker_that_closes_the_connection_immediately(protocol: SecurityProtocol, guess: str) -> None:
    for cause in (asyncio.IncompleteReadError(b"", 4), ConnectionResetError()):
        error = said(lost(cause), protocol=protocol)
        assert type(error) is ConnectionLost
        assert f"closed the connection immediately: {guess}" in str(error)
        assert str(error).endswith(f"Check A.security.protocol ({protocol})")


def test_a_reset_during_the_tls_handshake_means_a_plain_port() -> None:
    assert "is this a port without TLS?" in str(said(ConnectionResetError(), protocol=SecurityProtocol.SSL))


def test_a_broker_that_closes_the_connection_later() -> None:
    error = said(lost(asyncio.IncompleteReadError(b"", 4)), has_responded=True)
    assert str(error) == "cluster A: kafka:9092: the broker closed the connection"


def test_a_tls_alert_read_as_a_length() -> None:
    alert = int.from_bytes(bytes([0x15, 3, 3, 0]))
    error = said(lost(asyncio.IncompleteReadError(b"", alert)))
    assert type(error) is TlsRefused
    assert "the port requires TLS, which is not enabled here" in str(error)


def test_a_web_server_read_as_a_length() -> None:
    error = said(lost(asyncio.IncompleteReadError(b"", int.from_bytes(b"HTTP"))))
    assert "an HTTP server answered" in str(error)


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "check A.ssl.keystore.*"),
        ("SSLV3_ALERT_BAD_CERTIFICATE", "check A.ssl.keystore.*"),
        ("TLSV1_ALERT_UNKNOWN_CA", "check A.ssl.keystore.*"),
        ("WRONG_VERSION_NUMBER", "the port does not use TLS"),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", "TLS handshake failed: SSLV3_ALERT_HANDSHAKE_FAILURE: check A.ssl.*"),
    ],
)
def test_tls(reason: str, sentence: str) -> None:
    error = ssl.SSLError(1, reason)
    error.reason = reason
    for one in (error, lost(error)):
        assert type(said(one)) is TlsRefused
        assert sentence in str(said(one))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("unable to get local issuer certificate", "is not trusted"),
        ("Hostname mismatch, certificate is not valid for 'kafka'.", "is for another host"),
        ("IP address mismatch, certificate is not valid for '127.0.0.1'.", "is for another host"),
    ],
)
def test_certificates(words: str, sentence: str) -> None:
    error = ssl.SSLCertVerificationError(1, words)
    error.verify_message = words
    assert sentence in str(said(error))
    assert words in str(said(error))


def test_sasl() -> None:
    refused = said(aiokafka_errors.for_code(58)("Invalid username or password"))
    assert type(refused) is AuthenticationRefused
    assert "authentication of user alice failed: Invalid username or password: check A.sasl.jaas.config" in str(refused)
    assert "geheim" not in str(refused)
    assert "mechanism PLAIN is not enabled" in str(said(aiokafka_errors.UnsupportedSaslMechanismError("…")))
    assert "the port does not use SASL" in str(said(aiokafka_errors.IllegalSaslStateError()))


def test_tokens_that_brokers_reject() -> None:
    login = OAuthLogin(source=TokenEndpoint(url="x", grant=SecretGrant(client_id="mm2", client_secret="geheim")))
    settings = ClientSettings(bootstrap_servers=("kafka:9092",), alias="A", sasl=login)
    error = aiokafka_errors.for_code(58)('{"status":"invalid_token"}')
    refused = explain(error, BOOTSTRAP, settings, has_responded=True)
    assert type(refused) is AuthenticationRefused
    assert str(refused).endswith(
        "SASL OAUTHBEARER: the broker rejected the token of user mm2: invalid_token: "
        "check issuer, audience and scope of the token (A.sasl.oauthbearer.*)"
    )


def test_versions() -> None:
    assert type(said(aiokafka_errors.IncompatibleBrokerVersion("too old"))) is NotSupported
    assert type(said(NotImplementedError("v17"))) is NotSupported


def test_our_own_errors_are_passed_through() -> None:
    error = ClusterClosed("closed")
    assert said(error) is error


@pytest.mark.parametrize(
    ("alias", "sentence"),
    [
        (
            "B",
            "cluster B: kafka:9092: no answer to HeartbeatRequest within 10 s: is the cluster up, and reachable from"
            " this host? Check B.bootstrap.servers",
        ),
        (
            "",
            "kafka:9092: no answer to HeartbeatRequest within 10 s: is the cluster up, and reachable from"
            " this host? Check bootstrap.servers",
        ),
    ],
)
def test_a_broker_that_does_not_answer(alias: str, sentence: str) -> None:
    settings = ClientSettings(bootstrap_servers=("kafka:9092",), alias=alias)
    assert silent(ADVERTISED, settings, "HeartbeatRequest within 10 s") == sentence
