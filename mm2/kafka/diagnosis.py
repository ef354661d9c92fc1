"""From what a socket, TLS or SASL said to a sentence that guesses the cause and names the key to look at."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from dataclasses import dataclass

import aiokafka.errors as aiokafka_errors

from mm2.core.client_settings import ClientSettings, SecurityProtocol
from mm2.kafka.errors import (
    AuthenticationRefused,
    ClusterError,
    ConnectionLost,
    NotSupported,
    TlsRefused,
    Unreachable,
)

_TLS_RECORD = 0x1500_0000  # a TLS alert read as the length of a Kafka answer: type 21, version 3.x, …
_TLS_RECORD_MASK = 0xFF00_0000
_HTTP = int.from_bytes(b"HTTP")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a connection goes. ``advertised``: the broker's own word, not bootstrap.servers."""

    host: str
    port: int
    advertised: bool = False

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def explain(error: BaseException, endpoint: Endpoint, settings: ClientSettings, *, greeted: bool) -> ClusterError:
    """The error of ours for what happened on the way to, or on a connection with, ``endpoint``.

    ``greeted``: the broker has answered something on this connection before.
    """
    return _Case(endpoint, settings).explain(error, greeted=greeted)


def silent(endpoint: Endpoint, settings: ClientSettings, request: str) -> str:
    """A sentence about a broker that took ``request`` and does not answer it."""
    return f"{_Case(endpoint, settings)._where}: no answer to {request}: {cut_off(settings)}"


def cut_off(settings: ClientSettings) -> str:
    """What to look at when a cluster that answered before does not answer any more."""
    return f"is the cluster up, and reachable from here? Check {_key('bootstrap.servers', settings)}"


def broker(node_id: int, settings: ClientSettings) -> str:
    """How a sentence names the broker."""
    return f"broker {node_id} of cluster {settings.alias}" if settings.alias else f"broker {node_id}"


def _key(key: str, settings: ClientSettings) -> str:
    return f"{key} of {settings.alias}" if settings.alias else key


@dataclass(frozen=True, slots=True)
class _Case:
    endpoint: Endpoint
    settings: ClientSettings

    def explain(self, error: BaseException, *, greeted: bool) -> ClusterError:  # noqa: PLR0911 - a table of cases
        if isinstance(error, ClusterError):
            return error
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
            return self._hung_up(cause, greeted=greeted, connected=cause is not error)
        if isinstance(cause, TimeoutError):
            return Unreachable(f"{self._where}: no answer in time: is a firewall in between, or the broker overloaded?")
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
            return "the address is what the broker advertises: check advertised.listeners on the broker"
        return f"check {self._key('bootstrap.servers')}"

    def _network(self, error: OSError) -> ClusterError:
        text = str(error)
        if isinstance(error, socket.gaierror):
            return Unreachable(f"{self._where}: host {self.endpoint.host} is unknown to DNS: {self._address_key}")
        if isinstance(error, ConnectionRefusedError) or f"[Errno {errno.ECONNREFUSED}]" in text:
            return Unreachable(f"{self._where}: nothing listens there: is the broker down? {self._address_key}")
        return Unreachable(f"{self._where}: {text}")

    def _hung_up(self, error: Exception, *, greeted: bool, connected: bool) -> ClusterError:
        """``connected``: TCP and, where wanted, TLS were done when the broker hung up."""
        expected = error.expected if isinstance(error, asyncio.IncompleteReadError) else None
        if expected is not None and expected & _TLS_RECORD_MASK == _TLS_RECORD:
            return TlsRefused(
                f"{self._where}: the port speaks TLS, we do not: check {self._key('security.protocol')}"
                f" ({self.settings.security_protocol})"
            )
        if expected == _HTTP:
            return Unreachable(f"{self._where}: an HTTP server answers there: {self._address_key}")
        if greeted:
            return ConnectionLost(f"{self._where}: the broker closed the connection")
        protocol = self.settings.security_protocol
        encrypted = protocol in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)
        if encrypted and not connected:
            guess = "is it a port without TLS?"
        else:
            guess = {
                SecurityProtocol.PLAINTEXT: "are TLS or SASL expected on this port?",
                SecurityProtocol.SASL_PLAINTEXT: "is TLS expected on this port?",
                SecurityProtocol.SSL: "is SASL or a client certificate expected on this port?",
                SecurityProtocol.SASL_SSL: "is a client certificate expected on this port?",
            }[protocol]
        return ConnectionLost(
            f"{self._where}: the broker closed the connection at once: {guess}"
            f" Check {self._key('security.protocol')} ({protocol})"
        )

    def _tls(self, error: ssl.SSLError) -> ClusterError:
        reason = getattr(error, "reason", None) or str(error)  # OpenSSL's word, where it has one
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
        if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):  # the broker's word about ours
            return TlsRefused(
                f"{self._where}: the broker refuses our certificate, or asks for one ({reason}):"
                f" check {self._key('ssl.keystore.*')}"
            )
        if "WRONG_VERSION_NUMBER" in reason or "RECORD_LAYER_FAILURE" in reason:
            return TlsRefused(
                f"{self._where}: the port does not speak TLS: check {self._key('security.protocol')}"
                f" ({self.settings.security_protocol})"
            )
        return TlsRefused(f"{self._where}: no TLS connection: {reason}: check {self._key('ssl.*')}")

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
                f"{self._where}: SASL: mechanism {mechanism} is not enabled on the broker:"
                f" check {self._key('sasl.mechanism')}"
            )
        user = sasl.username if sasl else ""
        words = str(error.args[0]) if error.args else str(error)
        return AuthenticationRefused(
            f"{self._where}: SASL {mechanism}: user {user} refused: {words}: check {self._key('sasl.jaas.config')}"
        )
