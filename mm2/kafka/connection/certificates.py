"""When certificates end: those of PEM files, and those that brokers have shown in TLS handshakes."""

from __future__ import annotations

import re
import ssl
import time
import weakref
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from mm2.core.expiry import Certificate, CertificateKind, CertificateStatus

if TYPE_CHECKING:
    from cryptography import x509

_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)

SHOWN_S = 3_600.0
"""How long a certificate counts after the newest connection to its broker was closed: the broker may be gone."""

_DER = 2  # ENCODING_DER of the module _ssl


@lru_cache(256)
def first_to_end(pem: str) -> Certificate | None:
    """Return the certificate of a PEM text that ends first; None without one that can be read."""
    return min(filter(None, map(_read_pem, _PEM.findall(pem))), default=None)


def _read_pem(block: str) -> Certificate | None:
    from cryptography import x509  # noqa: PLC0415 lanes do not need it

    try:
        return _certificate(x509.load_pem_x509_certificate(block.encode()))
    except ValueError:  # `mm2.kafka.connection.security` reports it
        return None


@lru_cache(256)
def _read_der(encoded: bytes) -> Certificate | None:
    from cryptography import x509  # noqa: PLC0415 lanes do not need it

    try:
        return _certificate(x509.load_der_x509_certificate(encoded))
    except ValueError:  # OpenSSL accepts more than cryptography
        return None


def _certificate(read: x509.Certificate) -> Certificate:
    try:
        subject = read.subject.rfc4514_string()
    except ValueError:
        subject = ""
    return Certificate(
        expires_at=read.not_valid_after_utc.timestamp(), subject=subject or f"serial {read.serial_number:x}"
    )


def verified_chain(tls: ssl.SSLObject) -> list[bytes]:
    """Return the certificates with which the peer was verified, its own first, as DER; without an API of Python for
    the others, only its own."""
    public = getattr(tls, "get_verified_chain", None)  # Python 3.13
    if public is not None:
        return list(public())
    private = getattr(getattr(tls, "_sslobj", None), "get_verified_chain", None)
    if private is not None:
        return [one.public_bytes(_DER) for one in private() or ()]
    own = tls.getpeercert(binary_form=True)
    return [] if own is None else [own]


class _Shown(NamedTuple):
    """What a broker has shown: the verified ``chain``, its own certificate first. ``connection``: the newest one to
    it."""

    at: float
    connection: weakref.ref[Any]
    chain: list[bytes]


class ShownCertificates:
    """The certificates of the brokers to which this process is connected, as of the newest handshake with each."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._shown: dict[tuple[str, str], _Shown] = {}

    def take(self, cluster: str, broker: str, connection: Any, tls: ssl.SSLObject) -> None:
        """Note what a broker has shown on this new connection, which has a method ``connected``."""
        self._shown[cluster, broker] = _Shown(self._clock(), weakref.ref(connection), verified_chain(tls))

    def statuses(self) -> Iterator[CertificateStatus]:
        """Yield the certificates of brokers, and of the authorities that have signed them."""
        for (cluster, broker), shown in list(self._shown.items()):
            connection = shown.connection()
            if self._clock() - shown.at > SHOWN_S and (connection is None or not connection.connected()):
                del self._shown[cluster, broker]
                continue
            for number, one in enumerate(map(_read_der, shown.chain)):
                kind = CertificateKind.TRUSTED if number else CertificateKind.BROKER
                if one is not None:
                    yield CertificateStatus(kind=kind, cluster=cluster, certificate=one, broker=f"broker {broker}")


SHOWN = ShownCertificates()
"""Of this process."""
