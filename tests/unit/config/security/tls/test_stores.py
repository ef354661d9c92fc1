"""Stores of all types, from the properties to certificates and keys. More messages:
tests/snapshots/config/bad/security-tls.txt."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from shutil import copy

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from mm2.config.grammar.problems import Problem
from mm2.config.load import load
from mm2.config.security.tls import stores
from mm2.core.settings.tls import TlsSettings
from mm2.kafka.connection.security import ssl_context
from tests.unit.config.files import CLUSTERS
from tests.unit.config.security.tls.formats.golden import STORES
from tests.unit.config.security.tls.issued import issue

PEM = Path(__file__).parents[4] / "snapshots" / "config" / "pem"
TRUST = "truststore.location = {}\ntruststore.type = {}\ntruststore.password = sesame"
KEYS = "keystore.location = {}\nkeystore.type = {}\nkeystore.password = sesame\nkey.password = {}"


def read(directory: Path, lines: str, level: str = "A.") -> tuple[TlsSettings | None, list[Problem]]:
    """Return the TLS settings of the source consumer and all problems; keys in ``lines`` have no ssl. prefix."""
    written = "".join(f"{level}ssl.{line}\n" for line in lines.splitlines())
    file = directory / "mm2.properties"
    file.write_text(f"{CLUSTERS}A.security.protocol = SSL\n{written}", "iso-8859-1")
    loaded = load(file)
    settings = loaded.settings
    return None if settings is None else settings.flows[0].clients.source_consumer.tls, list(loaded.problems)


def tls(directory: Path, lines: str) -> TlsSettings:
    found, problems = read(directory, lines)
    assert found is not None, "\n".join(map(str, problems))
    return found


def problem(directory: Path, lines: str, level: str = "A.") -> Problem:
    """Return the only error of the stores described by ``lines``."""
    (found,) = [one for one in read(directory, lines, level)[1] if not one.is_warning]
    assert "sesame" not in str(found)
    return found


@pytest.mark.parametrize(
    ("name", "type_in_file"),
    [
        ("trust.jks", "JKS"),
        ("trust.jceks", "JCEKS"),
        ("trust.p12", "PKCS12"),
        ("trust-java8.p12", "pkcs12"),
        ("trust.p12", "JKS"),
        ("trust.jks", "PKCS12"),
        ("trust.jks", "JCEKS"),
    ],
)
def test_trust_stores(tmp_path: Path, name: str, type_in_file: str) -> None:
    found = tls(tmp_path, TRUST.format(STORES / name, type_in_file))
    assert found.ca_pem == (STORES / "ca.pem").read_text()


@pytest.mark.parametrize(
    ("name", "type_in_file", "key_password"),
    [
        ("identity.jks", "JKS", "open sesame"),
        ("identity.jceks", "JCEKS", "open sesame"),
        ("key-password.p12", "PKCS12", "open sesame"),
        ("identity.p12", "JKS", "sesame"),
    ],
)
def test_key_stores(tmp_path: Path, name: str, type_in_file: str, key_password: str) -> None:
    found = tls(tmp_path, KEYS.format(STORES / name, type_in_file, key_password))
    assert found.certificate_pem == (STORES / "chain.pem").read_text()
    assert found.key_pem is not None
    assert found.key_pem.startswith("-----BEGIN PRIVATE KEY-----\n")
    assert found.key_password is None, "the key is not encrypted any more"
    assert "PRIVATE" not in repr(found)


def test_password_of_the_store_is_the_default_for_the_key(tmp_path: Path) -> None:
    lines = f"keystore.location = {STORES / 'identity.p12'}\nkeystore.password = sesame"
    assert tls(tmp_path, lines).certificate_pem == (STORES / "chain.pem").read_text()


def test_certificates_beside_a_private_key(tmp_path: Path) -> None:
    """Those of openssl are not trusted. If their attributes cannot be read, there is a warning."""
    for name, warnings in (("named-ca.p12", []), ("named-ca-camellia.p12", ["corp ca"])):
        found, problems = read(tmp_path, TRUST.format(STORES / name, "PKCS12"))
        assert found is not None
        assert (STORES / "chain.pem").read_text().startswith(found.ca_pem or "?")
        assert [re.findall("^its certificates (.*) are not trusted: ", one.rule)[0] for one in problems] == warnings
    assert problems[0].is_warning


@pytest.mark.parametrize("name", ["trust.jks", "trust-open.p12", "trust-unencrypted.p12"])
def test_trust_stores_without_password(tmp_path: Path, name: str) -> None:
    assert tls(tmp_path, f"truststore.location = {STORES / name}").ca_pem == (STORES / "ca.pem").read_text()


def test_encrypted_trust_store_without_password(tmp_path: Path) -> None:
    found = problem(tmp_path, f"truststore.location = {STORES / 'trust.p12'}")
    assert found.rule == "is encrypted, so it requires A.ssl.truststore.password, which is not set"
    assert found.fix.endswith("add:\n  A.ssl.truststore.password = PASSWORD")


def test_passwords_from_config_providers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MM2_TEST_STORE", "sesame")
    (tmp_path / "secrets.properties").write_text("key = open sesame\n")
    provider = "org.apache.kafka.common.config.provider"
    file = tmp_path / "mm2.properties"
    file.write_text(
        f"{CLUSTERS}config.providers = env, file\nconfig.providers.env.class = {provider}.EnvVarConfigProvider\n"
        f"config.providers.file.class = {provider}.FileConfigProvider\nA.security.protocol = SSL\n"
        f"A.ssl.keystore.location = {STORES / 'identity.jks'}\nA.ssl.keystore.password = ${{env:MM2_TEST_STORE}}\n"
        f"A.ssl.key.password = ${{file:{tmp_path}/secrets.properties:key}}\n"
    )
    settings = load(file).settings
    assert settings is not None
    assert settings.flows[0].clients.source_consumer.tls.certificate_pem == (STORES / "chain.pem").read_text()


def test_wrong_password_of_a_store(tmp_path: Path) -> None:
    found = problem(tmp_path, f"truststore.location = {STORES / 'trust.jks'}\ntruststore.password = simsim")
    assert (found.key, found.value, found.line) == ("A.ssl.truststore.password", "[hidden]", 7)
    assert found.rule == f"does not open {STORES / 'trust.jks'}: it is wrong, or the file is damaged"
    assert "simsim" not in str(found)


@pytest.mark.parametrize("level", ["A.", "", "A.consumer."])
def test_missing_password_of_a_private_key(tmp_path: Path, level: str) -> None:
    lines = f"keystore.location = {STORES / 'identity.jks'}\nkeystore.password = sesame"
    found = problem(tmp_path, lines, level)
    assert found.key == f"{level}ssl.keystore.password"
    assert found.rule.startswith('opens the store, but does not decrypt the private key "client" of ')
    assert found.fix.endswith(f"add:\n  {level}ssl.key.password = PASSWORD")


def test_wrong_password_of_a_private_key(tmp_path: Path) -> None:
    found = problem(tmp_path, KEYS.format(STORES / "identity.jceks", "JCEKS", "wrong"))
    assert (found.key, found.rule) == (
        "A.ssl.key.password",
        f'does not decrypt the private key "client" of {STORES / "identity.jceks"}',
    )


def test_key_store_without_password(tmp_path: Path) -> None:
    found = problem(tmp_path, f"keystore.location = {STORES / 'identity.jks'}")
    assert found.rule == "requires A.ssl.keystore.password, which is not set"


def test_trust_store_as_key_store(tmp_path: Path) -> None:
    found = problem(tmp_path, KEYS.format(STORES / "trust.jks", "JKS", "x"))
    assert found.rule == "contains no private key: it contains only trusted certificates"


def test_trust_store_without_certificates(tmp_path: Path) -> None:
    empty = tmp_path / "empty.jks"
    empty.write_bytes(b"\xfe\xed\xfe\xed" + (2).to_bytes(4) + bytes(4 + 20))
    assert problem(tmp_path, f"truststore.location = {empty}").rule == "contains no trusted certificate"
    lines = f"keystore.type = JKS\nkeystore.location = {empty}\nkeystore.password = x"
    assert problem(tmp_path, lines).rule.startswith("does not open"), "the digest does not fit the password"


def test_several_private_keys(tmp_path: Path) -> None:
    found, problems = read(tmp_path, KEYS.format(STORES / "several.p12", "PKCS12", "sesame"))
    assert found is not None
    assert found.certificate_pem == (STORES / "other.pem").read_text(), "Java's key manager tries this one first"
    (warning,) = [one for one in problems if one.key == "A.ssl.keystore.location"]
    assert warning.rule == 'contains several private keys; "other" is used, and client ignored'


@pytest.mark.parametrize(
    ("lines", "rule", "fix"),
    [
        (
            f"truststore.location = {PEM / 'ca.pem'}",
            "is a PEM file, but A.ssl.truststore.type is JKS by default",
            "add A.ssl.truststore.type = PEM",
        ),
        (
            TRUST.format(PEM / "ca.pem", "PKCS12"),
            "is a PEM file, but A.ssl.truststore.type is PKCS12",
            "write A.ssl.truststore.type = PEM\nremove A.ssl.truststore.password",
        ),
        (
            f"truststore.type = PEM\ntruststore.location = {STORES / 'trust.p12'}",
            "is a PKCS12 store, but A.ssl.truststore.type is PEM",
            "write A.ssl.truststore.type = PKCS12\nadd A.ssl.truststore.password = the password of the store",
        ),
        (
            TRUST.format(STORES / "trust.p12", "JCEKS"),
            "is a PKCS12 store, but A.ssl.truststore.type is JCEKS",
            "write A.ssl.truststore.type = PKCS12",
        ),
        (
            f"truststore.location = {STORES / 'trust.jceks'}",
            "is a JCEKS store, but A.ssl.truststore.type is JKS by default",
            "add A.ssl.truststore.type = JCEKS\nadd A.ssl.truststore.password = the password of the store",
        ),
        (
            TRUST.format("x", "BCFKS"),
            "must be PEM, JKS, JCEKS or PKCS12",
            "write the type of the store, or convert it with keytool -importkeystore -deststoretype PKCS12",
        ),
        (
            f"truststore.location = {STORES / 'chosen-aliases.json'}",
            "is not a truststore: neither PEM nor JKS, JCEKS or PKCS12",
            "give the path of another file",
        ),
        (
            "truststore.location = a\\u0000b",
            "cannot be read (embedded null byte)",
            "give the path of a file that this user can read",
        ),
        (
            TRUST.format(STORES / "secret.jceks", "JCEKS"),
            'cannot be read as a JCEKS store: it contains a secret key ("secret"), which only Java can read',
            "replace the file, or convert it with Java 17 or newer: keytool -importkeystore -srckeystore FILE"
            " -destkeystore NEW -deststoretype PKCS12",
        ),
    ],
)
def test_files_that_are_not_what_their_type_says(tmp_path: Path, lines: str, rule: str, fix: str) -> None:
    found = problem(tmp_path, lines)
    assert (found.rule, found.fix) == (rule, fix)


def test_pem_store_is_not_changed(tmp_path: Path) -> None:
    copy(PEM / "ca.pem", tmp_path / "ca.pem")
    assert tls(tmp_path, f"truststore.type = PEM\ntruststore.location = {tmp_path / 'ca.pem'}").ca_pem
    assert (tmp_path / "ca.pem").read_text() == (PEM / "ca.pem").read_text()


def test_a_store_of_many_clients_is_decrypted_once(tmp_path: Path) -> None:
    """It takes a second in JCEKS, and each flow has eight clients."""
    store = STORES / "identity.jceks"
    stores._read.cache_clear()
    tls(tmp_path, KEYS.format(store, "JCEKS", "open sesame"))
    read = stores._read.cache_info()
    assert read.misses == 1
    assert read.hits > 0, "the other clients"
    (key,) = stores._read("JCEKS", store.read_bytes(), "sesame").keys
    assert key.decrypt("open sesame") is key.decrypt("open sesame"), "it is kept"


def joined(pem: str) -> str:
    """As it is after lines of a properties file that end with a backslash."""
    return pem.replace("\n", " \\\n")


def indented(pem: str) -> str:
    return "".join(f"    {line}\n" for line in pem.splitlines())


def on_one_line(pem: str) -> str:
    return pem.replace("\n", " ") + "\n"


@pytest.mark.parametrize("form", [indented, on_one_line, str.strip])
def test_forms_of_pem_files(tmp_path: Path, form: Callable[[str], str]) -> None:
    """Java reads them, and OpenSSL only normal lines."""
    certificate, key = issue("me")
    (tmp_path / "me.pem").write_text(form(certificate) + "\n" + form(encrypted_key(key)))
    location = f"location = {tmp_path / 'me.pem'}"
    found = tls(
        tmp_path,
        f"keystore.type = PEM\nkeystore.{location}\nkey.password = sesame\n"
        f"truststore.type = PEM\ntruststore.{location}",
    )
    assert ssl_context(found).cert_store_stats()["x509"] == 1


def test_pem_values_of_continued_lines(tmp_path: Path) -> None:
    certificate, key = issue("me")
    file = tmp_path / "mm2.properties"
    file.write_text(
        f"{CLUSTERS}security.protocol = SSL\nssl.keystore.type = PEM\nssl.truststore.type = PEM\n"
        f"ssl.keystore.key = {joined(key.strip())}\nssl.keystore.certificate.chain = {joined(certificate.strip())}\n"
        f"ssl.truststore.certificates = {joined(certificate.strip())}\n"
    )
    settings = load(file).settings
    assert settings is not None
    assert ssl_context(settings.flows[0].clients.source_consumer.tls).cert_store_stats()["x509"] == 1


def encrypted_key(key: str) -> str:
    """Return a key in openssl's older format, whose encryption has headers."""
    loaded = load_pem_private_key(key.encode(), None)
    return loaded.private_bytes(
        Encoding.PEM, PrivateFormat.TraditionalOpenSSL, BestAvailableEncryption(b"sesame")
    ).decode()
