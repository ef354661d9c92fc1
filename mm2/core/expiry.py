"""Certificates that end soon: what is said about them, and from when on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import assert_never

DAY_S = 86_400.0

SOON_S = 30 * DAY_S
"""Seconds before the end of a certificate from which on it is reported: a certificate that is renewed each quarter, and
those of public authorities (90 days, renewed after 60), are not reported while all is well."""

URGENT_S = 7 * DAY_S
"""Seconds before the end from which on it is reported as an error: a week has working days in it."""


class CertificateKind(StrEnum):
    """Whose certificate it is. ``TRUSTED``: of an authority by which a broker's certificate was verified."""

    OWN = "own"
    TRUSTED = "trusted"
    BROKER = "broker"
    LISTENER = "listener"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Certificate:
    """The end of a certificate, in seconds since 1970, and its subject, such as ``CN=broker-1``."""

    expires_at: float
    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateStatus:
    """The certificate of its kind that ends first. ``cluster``: its alias; empty for `CertificateKind.LISTENER`.
    ``broker``: the address of the broker that showed it, or whose certificate it has verified."""

    kind: CertificateKind
    cluster: str
    certificate: Certificate
    broker: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryWarning:
    """A message about a certificate, and whether it ends within `URGENT_S`, or has ended."""

    cluster: str
    text: str
    is_urgent: bool


def first_of_each_kind(found: Iterable[CertificateStatus]) -> tuple[CertificateStatus, ...]:
    """Return the certificate of each cluster and kind that ends first."""
    first: dict[tuple[str, CertificateKind], CertificateStatus] = {}
    for one in sorted(found, key=lambda status: status.certificate):
        first.setdefault((one.cluster, one.kind), one)
    return tuple(first[key] for key in sorted(first))


def expiry_warning(status: CertificateStatus, now: float) -> ExpiryWarning | None:
    """Return what to say about a certificate at the time ``now``, in seconds since 1970; None: it does not end soon."""
    left = status.certificate.expires_at - now
    if left > SOON_S:
        return None
    end = datetime.fromtimestamp(status.certificate.expires_at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    when = f"expired on {end}" if left <= 0 else f"expires in {_duration(left)}, on {end}"
    return ExpiryWarning(
        cluster=status.cluster,
        text=f"{_named(status)} {when}; {_advice(status)}",
        is_urgent=left <= URGENT_S,
    )


def _named(status: CertificateStatus) -> str:
    subject, cluster = status.certificate.subject, status.cluster
    match status.kind:
        case CertificateKind.OWN:
            return f"the client certificate for cluster {cluster} ({subject})"
        case CertificateKind.TRUSTED:
            return f"the trusted certificate {subject}, with which {status.broker} of cluster {cluster} is verified,"
        case CertificateKind.BROKER:
            return f"the certificate of {status.broker} of cluster {cluster} ({subject})"
        case CertificateKind.LISTENER:
            return f"the certificate of the node's listeners ({subject})"
    assert_never(status.kind)


def _advice(status: CertificateStatus) -> str:
    match status.kind:
        case CertificateKind.OWN:
            return f"replace it in {status.cluster}.ssl.keystore.location"
        case CertificateKind.TRUSTED:
            return f"add its successor to {status.cluster}.ssl.truststore.location"
        case CertificateKind.BROKER:
            return "renew it on the broker"
        case CertificateKind.LISTENER:
            return "replace it in listeners.https.ssl.keystore.location"
    assert_never(status.kind)


def _duration(seconds: float) -> str:
    days, hours = int(seconds // DAY_S), int(seconds // 3_600)
    if days >= 2:
        return f"{days} days"
    return f"{hours} hours" if hours >= 2 else "less than 2 hours"
