"""Error messages for failed connections: from socket, TLS and SASL errors to a likely cause and the key to check."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from dataclasses import dataclass

import aiokafka.errors as aiokafka_errors

from mm2.core.oauth.messages import broker_error
from mm2.core.settings.client import ClientSettings, SecurityProtocol
from mm2.core.settings.oauth import OAuthLogin
from mm2.kafka.errors import (
    AuthenticationRefused,
    ClusterError,
    ConnectionLost,
    NotSupported,
    TlsRefused,
    Unreachable,
)
from mm2.kafka.sasl.login import LoginFailed

_TLS_RECORD = 0x1500_0000  # a TLS alert read as the length of a Kafka response: type 21, version 3.x, …
_TLS_RECORD_MASK = 0xFF00_0000
_HTTP = int.from_bytes(b"HTTP")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEndpoint:
    """The address of a broker. ``advertised``: from the cluster's metadata, not from bootstrap.servers."""

    host: str
    port: int
    advertised: bool = False

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def explain(
    error: BaseException, endpoint: BrokerEndpoint, settings: ClientSettings, *, has_responded: bool
) -> ClusterError:
    """Return our error for a failure to connect to ``endpoint``, or of a connection to it.

    ``has_responded``: the broker has answered a request on this connection before.
    """
    return _Case(endpoint, settings).explain(error, has_responded=has_responded)


def silent(endpoint: BrokerEndpoint, settings: ClientSettings, request: str) -> str:
    """Return the message about a broker that accepted ``request`` and did not answer it."""
    return f"{_Case(endpoint, settings)._where}: no answer to {request}: {cut_off(settings)}"


def cut_off(settings: ClientSettings) -> str:
    """Return the advice for a cluster that has stopped answering."""
    return f"is the cluster up, and reachable from this host? Check {_key('bootstrap.servers', settings)}"


def broker(node_id: int, settings: ClientSettings) -> str:
    """Return the name of a broker for messages."""
    return f"broker {node_id} of cluster {settings.alias}" if settings.alias else f"broker {node_id}"


def _key(key: str, settings: ClientSettings) -> str:
    return f"{settings.alias}.{key}" if settings.alias else key


@dataclass(frozen=True, slots=True)
class _Case:
    endpoint: BrokerEndpoint
    settings: ClientSettings

    def explain(self, error: BaseException, *, has_responded: bool) -> ClusterError:  # noqa: PLR0911 - a table of cases
        if isinstance(error, ClusterError):
            return error
        if isinstance(error, LoginFailed):
            return self._login(error)
        if isinstance(error, aiokafka_errors.IncompatibleBrokerVersion | NotImplementedError):
            return NotSupported(f"{self._where}: {error}")
        cause = error.__cause__ if isinstance(error, aiokafka_errors.KafkaConnectionError) else error
        if isinstance(cause, ssl.SSLError):
            return self._tls(cause)
        if isinstance(error, aiokafka_errors.KafkaError) and not isinstance(
            error, aiokafka_errors.KafkaConnectionError
        ):
            return self._sasl(error)
        if isinstance(cause, asyncio.IncompleteReadError | ConnectionResetError | BrokenPipeError):
            return self._hung_up(cause, has_responded=has_responded, connected=cause is not error)
        if isinstance(cause, TimeoutError):
            return Unreachable(
                f"{self._where}: timed out: is there a firewall in between, or is the broker overloaded?"
            )
        if isinstance(cause, OSError):
            return self._network(cause)
        return ConnectionLost(f"{self._where}: connection lost: {cause or error}")

    @property
    def _where(self) -> str:
        return f"cluster {self.settings.alias}: {self.endpoint}" if self.settings.alias else str(self.endpoint)

    def _key(self, key: str) -> str:
        return _key(key, self.settings)

    @property
    def _address_key(self) -> str:
        if self.endpoint.advertised:
            return "the broker advertises this address: check advertised.listeners on the broker"
        return f"check {self._key('bootstrap.servers')}"

    def _network(self, error: OSError) -> ClusterError:
        text = str(error)
        if isinstance(error, socket.gaierror):
            return Unreachable(f"{self._where}: cannot resolve host {self.endpoint.host}: {self._address_key}")
        if isinstance(error, ConnectionRefusedError) or f"[Errno {errno.ECONNREFUSED}]" in text:
            return Unreachable(f"{self._where}: connection refused: is the broker down? {self._address_key}")
        return Unreachable(f"{self._where}: {text}")

    def _hung_up(self, error: Exception, *, has_responded: bool, connected: bool) -> ClusterError:
        """``connected``: TCP and, if enabled, TLS were established when the broker closed the connection."""
        expected = error.expected if isinstance(error, asyncio.IncompleteReadError) else None
        if expected is not None and expected & _TLS_RECORD_MASK == _TLS_RECORD:
            return TlsRefused(
                f"{self._where}: the port requires TLS, which is not enabled here:"
                f" check {self._key('security.protocol')} ({self.settings.security_protocol})"
            )
        if expected == _HTTP:
            return Unreachable(f"{self._where}: an HTTP server answered: {self._address_key}")
        if has_responded:
            return ConnectionLost(f"{self._where}: the broker closed the connection")
        protocol = self.settings.security_protocol
        encrypted = protocol in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)
        if encrypted and not connected:
            guess = "is this a port without TLS?"
        else:
            guess = {
                SecurityProtocol.PLAINTEXT: "does this port require TLS or SASL?",
                SecurityProtocol.SASL_PLAINTEXT: "does this port require TLS?",
                SecurityProtocol.SSL: "does this port require SASL or a client certificate?",
                SecurityProtocol.SASL_SSL: "does this port require a client certificate?",
            }[protocol]
        return ConnectionLost(
            f"{self._where}: the broker closed the connection immediately: {guess}"
            f" Check {self._key('security.protocol')} ({protocol})"
        )

    def _tls(self, error: ssl.SSLError) -> ClusterError:
        reason = getattr(error, "reason", None) or str(error)  # OpenSSL's reason code, if there is one
        if isinstance(error, ssl.SSLCertVerificationError):
            words = error.verify_message
            if "mismatch" in words.lower() or "not valid for" in words.lower():
                return TlsRefused(
                    f"{self._where}: the broker's certificate is for another host: {words}"
                    f" Check {self._key('bootstrap.servers')}, or the broker's certificate"
                )
            return TlsRefused(
                f"{self._where}: the broker's certificate is not trusted: {words}:"
                f" check {self._key('ssl.truststore.*')}"
            )
        if "ALERT" in reason and (
            "CERTIFICATE" in reason or "UNKNOWN_CA" in reason
        ):  # the broker's alert about our certificate
            return TlsRefused(
                f"{self._where}: the broker rejected the client certificate, or requires one ({reason}):"
                f" check {self._key('ssl.keystore.*')}"
            )
        if "WRONG_VERSION_NUMBER" in reason or "RECORD_LAYER_FAILURE" in reason:
            return TlsRefused(
                f"{self._where}: the port does not use TLS: check {self._key('security.protocol')}"
                f" ({self.settings.security_protocol})"
            )
        return TlsRefused(f"{self._where}: TLS handshake failed: {reason}: check {self._key('ssl.*')}")

    def _sasl(self, error: aiokafka_errors.KafkaError) -> ClusterError:
        sasl = self.settings.sasl
        mechanism = str(sasl.mechanism) if sasl else ""
        if isinstance(error, aiokafka_errors.IllegalSaslStateError):
            return AuthenticationRefused(
                f"{self._where}: the port does not use SASL: check {self._key('security.protocol')}"
                f" ({self.settings.security_protocol})"
            )
        if isinstance(error, aiokafka_errors.UnsupportedSaslMechanismError):
            return AuthenticationRefused(
                f"{self._where}: SASL mechanism {mechanism} is not enabled on the broker:"
                f" check {self._key('sasl.mechanism')}"
            )
        user = f" of user {sasl.user}" if sasl and sasl.user else ""
        words = str(error.args[0]) if error.args else str(error)
        if isinstance(sasl, OAuthLogin):
            return AuthenticationRefused(
                f"{self._where}: SASL {mechanism}: the broker rejected the token{user}: {broker_error(words.encode())}:"
                f" check issuer, audience and scope of the token ({self._key('sasl.oauthbearer.*')})"
            )
        return AuthenticationRefused(
            f"{self._where}: SASL {mechanism}: authentication{user} failed: {words}:"
            f" check {self._key('sasl.jaas.config')}"
        )

    def _login(self, error: LoginFailed) -> ClusterError:
        mechanism = self.settings.sasl.mechanism if self.settings.sasl else ""
        return AuthenticationRefused(f"{self._where}: SASL {mechanism}: {error}: check {self._key(error.key)}")
