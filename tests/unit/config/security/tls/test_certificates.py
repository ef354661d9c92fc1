"""Checks of certificates and private keys before a connection uses them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from mm2.config.load import Loaded
from mm2.config.security.tls.certificates import WrongPasswordError, all_expired, key_mismatch, outside_validity
from mm2.config.security.tls.formats.der import SEQUENCE, encode, parse
from tests.unit.config.files import loaded
from tests.unit.config.security.tls.formats.golden import STORES
from tests.unit.config.security.tls.issued import DAY, NOW, issue

PEM = Path(__file__).parents[4] / "snapshots" / "config" / "pem"
BROKEN = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def with_stores(directory: Path, *, trust: str = "", identity: str = "") -> Loaded:
    """Load a file with PEM stores of these contents."""
    lines = "A.security.protocol = SSL\n"
    for kind, text in (("truststore", trust), ("keystore", identity)):
        if text:
            (directory / f"{kind}.pem").write_text(text)
            lines += f"A.ssl.{kind}.type = PEM\nA.ssl.{kind}.location = {directory}/{kind}.pem\n"
    return loaded(directory, lines)


def rules(result: Loaded, *, warnings: bool = False) -> list[str]:
    return [problem.rule for problem in result.problems if problem.is_warning is warnings]


def test_own_certificate_that_has_expired(tmp_path: Path) -> None:
    result = with_stores(tmp_path, identity="".join(issue("me", begins=NOW - 2 * DAY, ends=NOW - DAY)))
    assert rules(result) == [f"its certificate (CN=me) expired on {NOW - DAY:%Y-%m-%d %H:%M} UTC"]
    assert result.problems[0].key == "A.ssl.keystore.location"


def test_own_certificate_that_is_not_valid_yet(tmp_path: Path) -> None:
    result = with_stores(tmp_path, identity="".join(issue("me", begins=NOW + DAY, ends=NOW + 2 * DAY)))
    assert rules(result) == [f"its certificate (CN=me) is not valid before {NOW + DAY:%Y-%m-%d %H:%M} UTC"]


def test_trusted_certificates_that_have_expired(tmp_path: Path) -> None:
    old = issue("old", begins=NOW - 3 * DAY, ends=NOW - 2 * DAY)[0]
    older = issue("older", begins=NOW - 3 * DAY, ends=NOW - 2.5 * DAY)[0]
    assert rules(with_stores(tmp_path, trust=old + older), warnings=True) == [
        f"all its certificates have expired, the last one on {NOW - 2 * DAY:%Y-%m-%d %H:%M} UTC, so no connection is"
        " possible"
    ]
    assert rules(with_stores(tmp_path, trust=old + issue("new")[0]), warnings=True) == [], "bundles contain old ones"


def test_trusted_certificate_that_cannot_be_read(tmp_path: Path) -> None:
    (rule,) = rules(with_stores(tmp_path, trust=BROKEN))
    assert rule.startswith("contains a certificate that cannot be read (")


def test_key_of_another_certificate(tmp_path: Path) -> None:
    assert rules(with_stores(tmp_path, identity=issue("one")[0] + issue("two")[1])) == [
        "its private key does not belong to its first certificate"
    ]


def test_unreadable_identities() -> None:
    certificate, key = issue("me")
    broken_key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
    assert key_mismatch(certificate, broken_key, None) == "its private key cannot be read"
    assert key_mismatch(BROKEN, key, None) == "its certificate cannot be read"
    assert key_mismatch(certificate, key, None) is None
    assert (outside_validity(BROKEN, NOW), all_expired(BROKEN, NOW)) == (None, None)


def test_password_of_a_key() -> None:
    certificate, key = (PEM / "ca.pem").read_text(), (PEM / "key-encrypted.pem").read_text()
    assert key_mismatch(certificate, key, "sesame") is None
    with pytest.raises(WrongPasswordError):
        key_mismatch(certificate, key, "no")


def test_key_of_an_algorithm_that_only_openssl_knows() -> None:
    """The same key with an object identifier that is not assigned."""
    unknown = "MC4CAQAwBQYDK2V/BCIEIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    assert (
        key_mismatch(issue("me")[0], f"-----BEGIN PRIVATE KEY-----\n{unknown}\n-----END PRIVATE KEY-----\n", None)
        is None
    )


def test_wrong_password_of_a_key_in_pem(tmp_path: Path) -> None:
    result = loaded(
        tmp_path,
        "A.security.protocol = SSL\nA.ssl.keystore.type = PEM\nA.ssl.key.password = simsim\n"
        f"A.ssl.keystore.location = {PEM}/identity-encrypted.pem\n",
    )
    assert [(one.key, one.rule) for one in result.problems if not one.is_warning] == [
        ("A.ssl.key.password", "does not decrypt the private key")
    ]


def test_key_without_certificate_in_a_key_store(tmp_path: Path) -> None:
    without_chain = bytearray((STORES / "identity.jks").read_bytes())
    at = without_chain.index(b"X.509") - 6  # the number of certificates
    assert without_chain[at : at + 4] == (2).to_bytes(4)
    body = bytes(without_chain[:at]) + bytes(4)
    (tmp_path / "key.jks").write_bytes(
        body + hashlib.sha1("sesame".encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()
    )
    result = loaded(
        tmp_path,
        f"A.security.protocol = SSL\nA.ssl.keystore.location = {tmp_path}/key.jks\nA.ssl.keystore.password = sesame\n"
        "A.ssl.key.password = open sesame\n",
    )
    assert rules(result) == ['contains no certificate of the private key "client"']


def test_key_that_cannot_be_read_in_a_key_store(tmp_path: Path) -> None:
    pbes2, unknown = bytes.fromhex("06092a864886f70d01050d"), bytes.fromhex("06092a864886f70d01057f")
    raw = (STORES / "key-password.p12").read_bytes()
    at = raw.index(pbes2)  # of the private key, which is not encrypted together with the certificates
    assert raw.count(pbes2) == 2
    version, authenticated, _ = parse(raw[:at] + unknown + raw[at + len(unknown) :]).children
    without_mac = encode(SEQUENCE, version.raw + authenticated.raw)  # which would reveal the change
    (tmp_path / "key.p12").write_bytes(without_mac)
    result = loaded(
        tmp_path,
        f"A.security.protocol = SSL\nA.ssl.keystore.location = {tmp_path}/key.p12\nA.ssl.keystore.password = sesame\n",
    )
    assert rules(result)[0].startswith('private key "client": it cannot be read (Unknown key encryption algorithm')
