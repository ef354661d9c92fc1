from __future__ import annotations

from pathlib import Path

import pytest

from mm2.core.settings.tls import TlsSettings
from tests.unit.config.files import flow, loaded
from tests.unit.config.security.tls.formats.golden import STORES

PEM = Path(__file__).parents[4] / "snapshots" / "config" / "pem"


def tls(directory: Path, lines: str) -> TlsSettings:
    return flow(directory, f"A.security.protocol = SSL\n{lines}").clients.source_consumer.tls


def inline(name: str) -> str:
    return (PEM / name).read_text().strip().replace("\n", "\\n\\\n")


def test_javas_trust_store_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert tls(tmp_path, "") == TlsSettings(), "without Java, that of the system"
    (tmp_path / "lib" / "security").mkdir(parents=True)
    (tmp_path / "lib" / "security" / "cacerts").write_bytes((STORES / "trust.jks").read_bytes())
    assert tls(tmp_path, "A.ssl.enabled.protocols =\n") == TlsSettings(ca_pem=(STORES / "ca.pem").read_text())


def test_javas_trust_store_is_read_only_for_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_OPTS", f"-Djavax.net.ssl.trustStore={tmp_path / 'missing'}")
    assert any("missing cannot be read" in one.rule for one in loaded(tmp_path, "A.security.protocol = SSL\n").problems)
    assert flow(tmp_path).clients.source_consumer.tls == TlsSettings()


def test_host_names_that_are_not_verified(tmp_path: Path) -> None:
    result = loaded(tmp_path, "A.security.protocol = SSL\nA.ssl.endpoint.identification.algorithm =\n")
    assert any(
        problem.is_warning and problem.rule.startswith("host names are not verified") for problem in result.problems
    )


@pytest.mark.parametrize(
    ("suites", "rule"),
    [
        ("TLS_NO_SUCH, ALSO_NOT", "contains no cipher suite that OpenSSL supports here"),
        (
            "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, TLS_NO_SUCH, TLS_EMPTY_RENEGOTIATION_INFO_SCSV",
            "OpenSSL does not support TLS_NO_SUCH here, ignored",
        ),
    ],
)
def test_cipher_suites_that_openssl_does_not_know(tmp_path: Path, suites: str, rule: str) -> None:
    result = loaded(tmp_path, f"A.security.protocol = SSL\nA.ssl.cipher.suites = {suites}\n")
    assert (result.settings is None) is rule.startswith("contains")
    assert [one.rule for one in result.problems if one.key == "A.ssl.cipher.suites"] == [rule]
    if result.settings is not None:
        assert "SCSV" not in "".join(result.settings.flows[0].clients.source_consumer.tls.ciphers)


def test_stores_in_files(tmp_path: Path) -> None:
    found = tls(
        tmp_path,
        f"A.ssl.truststore.type = PEM\nA.ssl.truststore.location = {PEM / 'ca.pem'}\n"
        f"A.ssl.keystore.type = PEM\nA.ssl.keystore.location = {PEM / 'identity-encrypted.pem'}\n"
        "A.ssl.key.password = sesame\nA.ssl.endpoint.identification.algorithm =\n",
    )
    assert found.ca_pem == (PEM / "ca.pem").read_text()
    assert found.certificate_pem == (PEM / "ca.pem").read_text().strip()
    assert found.key_pem == (PEM / "key-encrypted.pem").read_text().strip()
    assert found.key_password == "sesame"
    assert not found.check_hostname
    assert "PRIVATE" not in repr(found)


def test_inline_stores(tmp_path: Path) -> None:
    found = tls(
        tmp_path,
        f"A.ssl.truststore.type = PEM\nA.ssl.truststore.certificates = {inline('ca.pem')}\n"
        f"A.ssl.keystore.type = PEM\nA.ssl.keystore.key = {inline('key.pem')}\n"
        f"A.ssl.keystore.certificate.chain = {inline('ca.pem')}\n"
        "A.ssl.enabled.protocols = TLSv1.3\nA.ssl.cipher.suites = TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384\n",
    )
    assert found.ca_pem == (PEM / "ca.pem").read_text()
    assert found.key_pem == (PEM / "key.pem").read_text()
    assert found.certificate_pem == found.ca_pem
    assert found.protocols == ("TLSv1.3",)
    assert found.ciphers == ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("A.ssl.keystore.type = PEM\nA.ssl.keystore.key = KEY\nA.ssl.keystore.certificate.chain = CHAIN\n", "no -----"),
        (
            "A.ssl.keystore.type = PEM\nA.ssl.keystore.key = KEY\nA.ssl.keystore.certificate.chain = CHAIN\n"
            "A.ssl.keystore.location = x\n",
            "must not be set together with A.ssl.keystore.key",
        ),
        (
            f"A.ssl.keystore.type = PEM\nA.ssl.keystore.location = {PEM / 'identity-encrypted.pem'}\n",
            "A.ssl.key.password is not set",
        ),
        (f"A.ssl.keystore.type = PEM\nA.ssl.keystore.location = {PEM / 'key.pem'}\n", "BEGIN CERTIFICATE"),
        ("A.ssl.keystore.type = PEM\nA.ssl.keystore.location = /no/such\n", "cannot be read"),
    ],
)
def test_invalid_keystores(lines: str, expected: str, tmp_path: Path) -> None:
    result = loaded(tmp_path, f"A.security.protocol = SSL\n{lines}")
    assert result.settings is None
    assert any(expected in str(problem) for problem in result.problems)
