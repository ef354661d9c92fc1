"""When certificates end: of PEM texts, and of a peer in a TLS handshake."""

from __future__ import annotations

import ssl
from datetime import timedelta
from pathlib import Path

from mm2.core.expiry import CertificateKind
from mm2.core.settings.tls import TlsSettings
from mm2.kafka.connection.certificates import SHOWN_S, ShownCertificates, first_to_end
from mm2.kafka.connection.security import ssl_context
from tests.lab.listeners import Authority
from tests.unit.config.security.tls.issued import DAY, NOW, issue


def test_the_certificate_of_a_chain_that_ends_first() -> None:
    late, soon = (issue(name, ends=NOW + days * DAY)[0] for name, days in (("late", 90), ("soon", 3)))
    found = first_to_end(f"some text\n{late}\n{soon}")
    assert found is not None
    assert found.subject == "CN=soon"
    assert abs(found.expires_at - (NOW + timedelta(days=3)).timestamp()) <= 1


def test_what_cannot_be_read_is_left_out() -> None:
    assert first_to_end("no certificate") is None
    assert first_to_end("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----") is None


class Connection:
    def __init__(self) -> None:
        self.is_open = True

    def connected(self) -> bool:
        return self.is_open


def handshake(authority: Authority, directory: Path) -> ssl.SSLObject:
    """Return the client's side of a TLS connection."""
    pems = authority.server("127.0.0.1")
    file = directory / "server.pem"
    file.write_text(f"{pems.certificate}\n{pems.key}")
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(file)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl_context(TlsSettings(ca_pem=authority.ca_pem))
    client = context.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    server = server_side.wrap_bio(to_server, to_client, server_side=True)
    done: set[ssl.SSLObject] = set()
    while len(done) < 2:
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            done.add(side)
    return client


def test_a_broker_shows_its_certificate_and_its_authority(tmp_path: Path) -> None:
    now = 0.0
    shown, authority, connection = ShownCertificates(lambda: now), Authority(), Connection()
    shown.take("A", "b:9093", connection, handshake(authority, tmp_path))
    own, trusted = shown.statuses()
    assert (own.kind, trusted.kind) == (CertificateKind.BROKER, CertificateKind.TRUSTED)
    assert {own.cluster, trusted.cluster} == {"A"}
    assert {own.broker, trusted.broker} == {"broker b:9093"}
    assert trusted.certificate == first_to_end(authority.ca_pem)
    assert own.certificate != trusted.certificate

    now = SHOWN_S + 1
    assert len(list(shown.statuses())) == 2, "the connection is open"
    connection.is_open = False
    assert list(shown.statuses()) == []


def test_a_closed_connection_counts_for_a_while(tmp_path: Path) -> None:
    now = 0.0
    shown, connection = ShownCertificates(lambda: now), Connection()
    shown.take("A", "b:9093", connection, handshake(Authority(), tmp_path))
    del connection
    assert len(list(shown.statuses())) == 2
    now = SHOWN_S + 1
    assert list(shown.statuses()) == []
