"""TLS connections to ZooKeeper. Those of kazoo would trust the system's authorities too, and read only files."""

from __future__ import annotations

import errno
import socket
import ssl
from functools import cached_property

from mm2.core.settings.tls import TlsSettings
from mm2.kafka.connection.security import ssl_context
from mm2.kafka.errors import SecuritySettingsInvalid

_KEYS = "mm2.zookeeper.ssl"

_OTHER_HOST = f"the server's certificate is for another host; check {_KEYS}.endpoint.identification.algorithm"

_REASONS = {
    "Hostname mismatch": _OTHER_HOST,
    "IP address mismatch": _OTHER_HOST,
    "CERTIFICATE_VERIFY_FAILED": f"the server's certificate is not trusted; check {_KEYS}.truststore.*",
    "_ALERT_": f"the server rejected the client certificate, or requires one; check {_KEYS}.keystore.*",
    "WRONG_VERSION_NUMBER": f"the port does not use TLS; check {_KEYS}.client.enable",
    "EOF": f"the port does not use TLS, or requires a client certificate; check {_KEYS}.client.enable and .keystore.*",
}
"""What to check, by a text in the message of OpenSSL; the first that fits."""


class TlsSockets:
    """Encrypts connections with ``tls``."""

    def __init__(self, tls: TlsSettings) -> None:
        self._tls = tls

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return ssl_context(self._tls)

    def encrypt(self, connection: socket.socket, host: str, within: float) -> ssl.SSLSocket:
        """Return ``connection``, to ``host``, after the handshake. It is closed if that takes longer than ``within``
        seconds, or fails. Raises OSError with the reason."""
        try:
            connection.settimeout(within)
            return self._context.wrap_socket(connection, server_hostname=host)
        except TimeoutError:
            connection.close()
            raise TimeoutError(errno.ETIMEDOUT, "no answer to the TLS handshake") from None
        except (OSError, SecuritySettingsInvalid) as error:
            connection.close()
            raise OSError(errno.EPROTO, explained(str(error))) from error


def explained(text: str) -> str:
    """Return an error message of OpenSSL with what to check. An error after the handshake, such as the rejection of a
    certificate in TLS 1.3, is found in kazoo's log."""
    if _KEYS in text:
        return text
    reason = next((reason for sign, reason in _REASONS.items() if sign in text), None)
    return text if reason is None else f"{reason} ({text})"
