from __future__ import annotations

import hashlib

import pytest

from mm2.config.security.tls.formats.jks import decrypt, read_jks
from mm2.config.security.tls.formats.key_store import StoreError, WrongKeyPasswordError, WrongStorePasswordError
from tests.unit.config.security.tls.formats.golden import KEY_PASSWORD, STORE_PASSWORD, content, fits, names


@pytest.mark.parametrize("name", ["identity.jks", "identity.jceks"])
def test_private_key_with_its_own_password(name: str) -> None:
    store = read_jks(content(name), STORE_PASSWORD)
    (entry,) = store.keys
    assert entry.alias == "client"
    identity = entry.decrypt(KEY_PASSWORD)
    assert names(identity.chain) == ["CN=client", "CN=Lab CA"]
    assert fits(identity)
    assert names(store.anchors) == ["CN=client"], "Java trusts the certificate of a key, but not its chain"
    for wrong in (STORE_PASSWORD, "", "größe"):
        with pytest.raises(WrongKeyPasswordError):
            entry.decrypt(wrong)


@pytest.mark.parametrize("name", ["trust.jks", "trust.jceks"])
def test_trusted_certificates(name: str) -> None:
    assert names(read_jks(content(name), STORE_PASSWORD).anchors) == ["CN=Lab CA"]
    assert names(read_jks(content(name), None).anchors) == ["CN=Lab CA"], "unverified, as in Java"
    with pytest.raises(WrongStorePasswordError):
        read_jks(content(name), "wrong")


def test_trusted_certificate_beside_a_private_key() -> None:
    assert names(read_jks(content("mixed.jks"), STORE_PASSWORD).anchors) == ["CN=Lab CA", "CN=client"]


def test_a_changed_store_is_not_read() -> None:
    whole = bytearray(content("trust.jks"))
    whole[-30] ^= 1
    with pytest.raises(WrongStorePasswordError):
        read_jks(bytes(whole), STORE_PASSWORD)


def test_version_1_has_no_types_of_certificates() -> None:
    certificate = b"\x30\x00"
    body = b"\xfe\xed\xfe\xed" + (1).to_bytes(4) + (1).to_bytes(4) + (2).to_bytes(4) + b"\x00\x01a" + bytes(8)
    body += len(certificate).to_bytes(4) + certificate
    digest = hashlib.sha1("p".encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()
    assert read_jks(body + digest, "p").trusted == (certificate,)


@pytest.mark.parametrize(
    ("store", "reason"),
    [
        (content("trust.jks")[:-40], "damaged or incomplete"),
        (b"\xfe\xed\xfe\xed" + (3).to_bytes(4) + bytes(24), "version 3 of the format is unknown"),
        (b"\xfe\xed\xfe\xed" + (2).to_bytes(4) + (1).to_bytes(4) + bytes(40), "damaged or incomplete"),
        (content("secret.jceks"), 'contains a secret key ("secret")'),
    ],
)
def test_unreadable_stores(store: bytes, reason: str) -> None:
    with pytest.raises(StoreError, match=reason.replace("(", r"\(").replace(")", r"\)")):
        read_jks(store, None)


@pytest.mark.parametrize(
    ("protected", "reason"),
    [
        (b"no DER", "damaged"),
        (bytes.fromhex("300a300606022a0305000400"), "unknown algorithm"),
        # PBEWithMD5AndTripleDES with a salt of one byte
        (bytes.fromhex("3017301306092b060104012a0213013006040100020105") + b"\x04\x00", "damaged"),
    ],
)
def test_unreadable_keys(protected: bytes, reason: str) -> None:
    with pytest.raises(StoreError, match=reason):
        decrypt(protected, "p")
