"""From PEM texts to a TLS context. Handshakes are in tests/integration/kafka/test_security.py."""

from __future__ import annotations

import os
import ssl
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from mm2.core.settings.cipher_suites import openssl_name
from mm2.core.settings.listener import ClientAuth, ServerTls
from mm2.core.settings.tls import TlsSettings
from mm2.kafka.connection.security import shared_context, ssl_context
from mm2.kafka.errors import SecuritySettingsInvalid
from mm2.rest.server.tls import server_context

AUTHORITY = trustme.CA()
ISSUED = AUTHORITY.issue_cert("client.test")
CA = AUTHORITY.cert_pem.bytes().decode()
CERTIFICATE = "".join(pem.bytes().decode() for pem in ISSUED.cert_chain_pems)
KEY = ISSUED.private_key_pem.bytes().decode()
TLS = TlsSettings(ca_pem=CA)
MUTUAL = replace(TLS, certificate_pem=CERTIFICATE, key_pem=KEY)


def encrypted_key(password: str) -> str:
    key = load_pem_private_key(KEY.encode(), password=None)
    encryption = BestAvailableEncryption(password.encode())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()


def test_the_broker_is_always_verified_and_its_name_unless_disabled() -> None:
    context = ssl_context(TLS)
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    loose = ssl_context(replace(TLS, check_hostname=False))
    assert loose.verify_mode is ssl.CERT_REQUIRED
    assert not loose.check_hostname


def test_only_the_given_authorities_are_trusted() -> None:
    assert len(ssl_context(TLS).get_ca_certs()) == 1
    assert len(ssl_context(replace(TLS, ca_pem=f"# größe\n{CA}\n{KEY}")).get_ca_certs()) == 1


def test_clients_with_the_same_settings_share_a_context() -> None:
    shared = shared_context(TLS)
    assert shared_context(replace(TLS)) is shared
    assert shared_context(MUTUAL) is not shared
    assert ssl_context(TLS) is not shared, "others may modify theirs"
    assert shared_context(TlsSettings()) is not shared_context(TlsSettings()), "the system's store can change"


def test_without_a_trust_store_the_systems_is_used() -> None:
    assert ssl_context(TlsSettings()).verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (TlsSettings(ca_pem="nothing"), "ssl.truststore: contains no certificate"),
        (
            TlsSettings(ca_pem="-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"),
            "ssl.truststore: a certificate cannot be read",
        ),
        (replace(MUTUAL, key_pem=None), "ssl.keystore.key: missing"),
        (replace(MUTUAL, certificate_pem=None), "ssl.keystore.certificate.chain: missing"),
        (replace(MUTUAL, key_pem="nothing"), "cannot be read as PEM"),
        (
            replace(MUTUAL, key_pem=AUTHORITY.issue_cert("other.test").private_key_pem.bytes().decode()),
            "ssl.keystore.key: does not belong to",
        ),
        (replace(MUTUAL, key_pem=encrypted_key("right"), key_password="wrong"), "check ssl.key.password"),
        (replace(MUTUAL, key_pem=encrypted_key("right")), "check ssl.key.password"),
        (replace(TLS, protocols=()), "ssl.enabled.protocols: empty"),
        (replace(TLS, protocols=("TLSv1.2", "SSLv3")), "ssl.enabled.protocols: SSLv3: must be one or more of TLSv1,"),
        (replace(TLS, ciphers=("TLS_NULL_WITH_NULL_NULL",)), "ssl.cipher.suites: none of"),
        (replace(TLS, ciphers=("TLS_AES_256_GCM_SHA384",)), "List all three or none"),
    ],
)
def test_unusable_settings_are_rejected_with_the_key(settings: TlsSettings, sentence: str) -> None:
    with pytest.raises(SecuritySettingsInvalid) as caught:
        ssl_context(settings)
    assert sentence in str(caught.value)
    assert "PRIVATE KEY" not in str(caught.value)


def test_plain_and_encrypted_keys() -> None:
    ssl_context(MUTUAL)
    ssl_context(replace(MUTUAL, key_pem=encrypted_key("right"), key_password="right"))


@pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "unnamed"])
def test_keys_are_never_in_a_file_with_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, in_memory: bool
) -> None:
    """That of listeners is loaded in the same way. On Linux there need not even be a directory for temporary files."""
    if in_memory:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    else:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        monkeypatch.delattr(os, "memfd_create")  # as on macOS
    loaded: list[list[Path]] = []
    load = ssl.SSLContext.load_cert_chain

    def observed(*arguments: Any, **named: Any) -> None:
        loaded.append(list(tmp_path.rglob("*")))
        load(*arguments, **named)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", observed)
    key = load_pem_private_key(KEY.encode(), password=None)
    old = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, BestAvailableEncryption(b"right")).decode()
    for tls in (
        MUTUAL,
        replace(MUTUAL, key_pem=encrypted_key("right"), key_password="right"),
        replace(MUTUAL, key_pem=old, key_password="right"),
    ):
        ssl_context(tls)
        server_context(ServerTls(tls=tls, client_auth=ClientAuth.NONE))
    with pytest.raises(SecuritySettingsInvalid):
        ssl_context(replace(MUTUAL, key_pem="nothing"))
    assert loaded == [[]] * 7
    assert list(tmp_path.iterdir()) == []


def test_protocol_versions() -> None:
    context = ssl_context(replace(TLS, protocols=("TLSv1.3",)))
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3)
    context = ssl_context(replace(TLS, protocols=("TLSv1.3", "TLSv1.2")))
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


def test_suites_of_tls_1_2_disable_1_3_as_in_java() -> None:
    context = ssl_context(replace(TLS, ciphers=("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",)))
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2
    chosen = [one["name"] for one in context.get_ciphers() if one["protocol"] != "TLSv1.3"]
    assert chosen == ["ECDHE-RSA-AES256-GCM-SHA384"]


def test_suites_of_tls_1_3_alone_disable_1_2() -> None:
    all_three = ("TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256")
    assert ssl_context(replace(TLS, ciphers=all_three)).minimum_version is ssl.TLSVersion.TLSv1_3


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "ECDHE-ECDSA-AES128-SHA256"),
        ("TLS_DHE_RSA_WITH_AES_128_GCM_SHA256", "DHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
    ],
)
def test_javas_names_of_suites(java: str, openssl: str) -> None:
    assert openssl_name(java) == openssl
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).set_ciphers(openssl)
