"""Certificates, tokens and tickets of a node: when they end, and whether they can be renewed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mm2.config.settings import FlowSettings
from mm2.core.expiry import CertificateKind, CertificateStatus, ExpiryWarning, expiry_warning, first_of_each_kind
from mm2.core.settings.client import ClientSettings
from mm2.core.settings.kerberos import KerberosLogin
from mm2.core.settings.listener import ListenerSettings
from mm2.core.settings.oauth import OAuthLogin
from mm2.core.settings.sasl import SaslLogin
from mm2.kafka.connection.certificates import SHOWN, ShownCertificates, first_to_end
from mm2.kafka.sasl.login import LoginFailed
from mm2.kafka.sasl.logins import renewal_failure
from mm2.node.status.status_model import CertificateEnd, FlowStatus

log = logging.getLogger("mm2.node")


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What a node knows of its certificates, tokens and tickets. ``warnings`` are about certificates."""

    certificates: tuple[CertificateEnd, ...] = ()
    warnings: tuple[ExpiryWarning, ...] = ()
    renewals: Mapping[str, str | None] = field(default_factory=dict)

    def reasons_of(self, flow: FlowStatus) -> Iterator[str]:
        """Yield the reasons of a flow: about its clusters, and about the listeners of the node."""
        for warning in self.warnings:
            if warning.cluster in (flow.source, flow.target, ""):
                yield warning.text
        for cluster in dict.fromkeys((flow.source, flow.target)):
            if (failure := self.renewals.get(cluster)) is not None:
                yield failure


class CredentialWatch:
    """Observes the credentials of a node, and logs each warning about a certificate once."""

    def __init__(
        self,
        *,
        shown: ShownCertificates = SHOWN,
        failure_of: Callable[[SaslLogin], LoginFailed | None] = renewal_failure,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``shown``: what brokers have shown. ``failure_of``: why a login cannot renew its token or ticket. ``clock``:
        seconds since 1970."""
        self._shown = shown
        self._failure_of = failure_of
        self._clock = clock
        self._logged: frozenset[str] = frozenset()

    def observe(self, flows: Sequence[FlowSettings], listening: ListenerSettings) -> Credentials:
        """Return what is known now for clients of these flows, and for these listeners."""
        clients = [client for flow in flows for client in _clients(flow)]
        aliases = {client.alias for client in clients}
        shown = (one for one in self._shown.statuses() if one.cluster in aliases)
        found = first_of_each_kind([*_own(clients), *_listener(listening), *shown])
        now = self._clock()
        warnings = tuple(filter(None, (expiry_warning(one, now) for one in found)))
        for warning in warnings:
            if warning.text not in self._logged:
                log.log(logging.ERROR if warning.is_urgent else logging.WARNING, "%s", warning.text)
        self._logged = frozenset(warning.text for warning in warnings)
        return Credentials(certificates=tuple(map(_end, found)), warnings=warnings, renewals=self._renewals(clients))

    def _renewals(self, clients: Iterable[ClientSettings]) -> dict[str, str | None]:
        renewals: dict[str, str | None] = {}
        for alias, login in dict.fromkeys((client.alias, client.login) for client in clients):
            if not isinstance(login, OAuthLogin | KerberosLogin):
                continue
            failure = self._failure_of(login)
            renewals[alias] = renewals.get(alias) or (None if failure is None else _renewal_text(alias, failure))
        return renewals


def _renewal_text(alias: str, failure: LoginFailed) -> str:
    return f"cannot renew the credentials for cluster {alias}: {failure} (check {alias}.{failure.key})"


def _clients(flow: FlowSettings) -> tuple[ClientSettings, ...]:
    """Return the settings of the clients of a flow; those of an other kind have the same certificates and logins."""
    clients = flow.clients
    if not flow.enabled:
        return (clients.worker, clients.record_producer)
    source = (clients.source_consumer, clients.source_admin)
    return (*source, clients.target_admin, clients.record_producer, clients.worker)


def _own(clients: Iterable[ClientSettings]) -> Iterator[CertificateStatus]:
    for client in clients:
        pem = client.tls.certificate_pem
        if pem is not None and (one := first_to_end(pem)) is not None:
            yield CertificateStatus(kind=CertificateKind.OWN, cluster=client.alias, certificate=one)


def _listener(listening: ListenerSettings) -> Iterator[CertificateStatus]:
    for tls in (listening.tls.tls if listening.tls is not None else None, listening.peers):
        pem = None if tls is None else tls.certificate_pem
        if pem is not None and (one := first_to_end(pem)) is not None:
            yield CertificateStatus(kind=CertificateKind.LISTENER, cluster="", certificate=one)


def _end(status: CertificateStatus) -> CertificateEnd:
    return CertificateEnd(
        cluster=status.cluster,
        kind=status.kind,
        subject=status.certificate.subject,
        expires=round(status.certificate.expires_at * 1_000),
        broker=status.broker,
    )
