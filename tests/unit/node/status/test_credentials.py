"""What a node knows of the certificates, tokens and tickets of its clients."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from mm2.config.settings import NodeSettings
from mm2.core.expiry import Certificate, CertificateKind, CertificateStatus
from mm2.core.settings.oauth import OAuthLogin
from mm2.core.settings.sasl import SaslLogin
from mm2.kafka.connection.certificates import ShownCertificates
from mm2.kafka.sasl.login import LoginFailed
from mm2.node.status.credentials import CredentialWatch
from tests.contract.samples import flow
from tests.unit.config.readings import read
from tests.unit.config.security.tls.issued import DAY, NOW, issue

OAUTH = """
A.security.protocol = SASL_PLAINTEXT
A.sasl.mechanism = OAUTHBEARER
A.sasl.login.callback.handler.class = org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler
A.sasl.oauthbearer.token.endpoint.url = https://idp.example.com/token
A.sasl.jaas.config = org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required \
 clientId="a" clientSecret="secret";
"""


class Shown(ShownCertificates):
    """Brokers that have shown these certificates."""

    def __init__(self, *found: CertificateStatus) -> None:
        super().__init__()
        self.found = found

    def statuses(self) -> Iterator[CertificateStatus]:
        return iter(self.found)


def of_broker(days: float, cluster: str = "B") -> CertificateStatus:
    certificate = Certificate(expires_at=(NOW + days * DAY).timestamp(), subject="CN=b")
    return CertificateStatus(
        kind=CertificateKind.BROKER, cluster=cluster, certificate=certificate, broker="broker b:9093"
    )


def settings(directory: Path, *, days: int, lines: str = "") -> NodeSettings:
    """Return a node whose client certificate for A, which is also that of its listener, ends in so many days."""
    certificate, key = issue("own", ends=NOW + timedelta(days=days, hours=1))
    (directory / "own.pem").write_text(f"{key}\n{certificate}")
    (directory / "ca.pem").write_text(certificate)
    store = f"ssl.keystore.type = PEM\n%sssl.keystore.location = {directory}/own.pem\n"
    trust = f"ssl.truststore.type = PEM\n%sssl.truststore.location = {directory}/ca.pem\n"
    own = "".join("A." + text.replace("%s", "A.") for text in (store, trust))
    listener = "listeners.https." + store.replace("%s", "listeners.https.")
    return read(
        directory, f"A.security.protocol = SSL\n{own}listeners = https://127.0.0.1:8443\n{listener}{lines}"
    ).settings


def watch(*shown: CertificateStatus, failure: LoginFailed | None = None) -> CredentialWatch:
    def failure_of(login: SaslLogin) -> LoginFailed | None:
        assert isinstance(login, OAuthLogin)
        return failure

    return CredentialWatch(shown=Shown(*shown), failure_of=failure_of, clock=NOW.timestamp)


def test_own_certificates_and_those_of_brokers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    node = settings(tmp_path, days=20)
    watched = watch(of_broker(5.5), of_broker(3, "another cluster"))
    found = watched.observe(node.flows, node.listening)
    watched.observe(node.flows, node.listening)
    ends = [(one.cluster, one.kind, one.subject, one.broker) for one in found.certificates]
    assert ends == [
        ("", "listener", "CN=own", None),
        ("A", "own", "CN=own", None),
        ("B", "broker", "CN=b", "broker b:9093"),
    ]
    expected = [
        ("WARNING", "the certificate of the node's listeners (CN=own) expires in 20 days"),
        ("WARNING", "the client certificate for cluster A (CN=own) expires in 20 days"),
        ("ERROR", "the certificate of broker b:9093 of cluster B (CN=b) expires in 5 days"),
    ]
    assert [(one.levelname, one.getMessage().partition(", on ")[0]) for one in caplog.records] == expected, "once"
    shown = [text.partition(", on ")[0] for text in found.reasons_of(flow())]
    assert shown == [text for _, text in expected]
    other = [text.partition(", on ")[0] for text in found.reasons_of(flow(source="C", target="D"))]
    assert other == [expected[0][1]], "the node's listeners concern all of its flows"


def test_a_renewed_certificate_is_taken_from_the_new_settings(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    watched = watch()
    before, after = settings(tmp_path, days=3), settings(tmp_path, days=90)
    assert list(watched.observe(before.flows, before.listening).reasons_of(flow()))
    found = watched.observe(after.flows, after.listening)
    assert list(found.reasons_of(flow())) == []
    assert {round(one.expires / 1000 - NOW.timestamp()) // 86_400 for one in found.certificates} == {90}
    assert caplog.records[-1].levelno == logging.ERROR


def test_credentials_that_cannot_be_renewed(tmp_path: Path) -> None:
    node = read(tmp_path, OAUTH).settings
    assert watch().observe(node.flows, node.listening).renewals == {"A": None}
    found = watch(failure=LoginFailed("no answer", "sasl.x")).observe(node.flows, node.listening)
    reason = "cannot renew the credentials for cluster A: no answer (check A.sasl.x)"
    assert found.renewals == {"A": reason}
    assert list(found.reasons_of(flow())) == [reason]
    assert list(found.reasons_of(flow(source="C", target="D"))) == []
    plain = read(tmp_path).settings
    assert watch().observe(plain.flows, plain.listening).renewals == {}
