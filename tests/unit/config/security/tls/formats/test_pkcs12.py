from __future__ import annotations

import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from mm2.config.security.tls.formats.der import EXPLICIT, OCTETS, SEQUENCE, encode, parse
from mm2.config.security.tls.formats.key_store import (
    PasswordRequiredError,
    StoreError,
    WrongKeyPasswordError,
    WrongStorePasswordError,
)
from mm2.config.security.tls.formats.pkcs12 import read_pkcs12
from tests.unit.config.security.tls.formats.golden import KEY_PASSWORD, STORE_PASSWORD, STORES, content, fits, names

PBES2, UNKNOWN = bytes.fromhex("06092a864886f70d01050d"), bytes.fromhex("06092a864886f70d01057f")

ISSUERS = json.loads((STORES / "accepted-issuers.json").read_text())
"""By file, the subjects that Java accepts; None: it cannot read the file."""

OF_OPENSSL = ("trust-openssl.p12", "trust-openssl-open.p12")
"""Certificates without private key and without Java's attribute."""


@pytest.mark.parametrize(
    "name",
    ["identity.p12", "identity-java8.p12", "identity-openssl.p12", "identity-openssl-legacy.p12", "without-mac.p12"],
)
def test_private_key(name: str) -> None:
    store = read_pkcs12(content(name), STORE_PASSWORD)
    (entry,) = store.keys
    assert entry.alias == "client"
    identity = entry.decrypt(STORE_PASSWORD)
    assert names(identity.chain) == ["CN=client", "CN=Lab CA"]
    assert fits(identity)
    assert names(store.anchors) == ["CN=client"], "Java trusts the certificate of a key, but not its chain"
    with pytest.raises(WrongStorePasswordError):
        read_pkcs12(content(name), "wrong")


@pytest.mark.parametrize("name", ["no-password.p12", "no-password-legacy.p12"])
def test_private_key_with_an_empty_password(name: str) -> None:
    """The two versions of openssl's format differ in the bytes of an empty password."""
    store = read_pkcs12(content(name), "")
    assert fits(store.keys[0].decrypt(""))
    assert names(store.anchors) == ["CN=client"]
    with pytest.raises(WrongStorePasswordError):
        read_pkcs12(content(name), STORE_PASSWORD)
    with pytest.raises(WrongKeyPasswordError):
        read_pkcs12(content("identity.p12"), STORE_PASSWORD).keys[0].decrypt("")


def test_private_key_with_its_own_password() -> None:
    (entry,) = read_pkcs12(content("key-password.p12"), STORE_PASSWORD).keys
    assert fits(entry.decrypt(KEY_PASSWORD))
    with pytest.raises(WrongKeyPasswordError):
        entry.decrypt(STORE_PASSWORD)
    with pytest.raises(WrongStorePasswordError):
        read_pkcs12(content("key-password.p12"), "wrong")


def test_several_private_keys_beside_a_trusted_certificate() -> None:
    store = read_pkcs12(content("several.p12"), STORE_PASSWORD)
    assert {entry.alias: names(entry.decrypt(STORE_PASSWORD).chain) for entry in store.keys} == {
        "client": ["CN=client", "CN=Lab CA"],
        "other": ["CN=Other CA"],
    }
    assert "CN=Lab CA" not in names(store.anchors), "the rest of a chain is not trusted"


@pytest.mark.parametrize("name", ["trust.p12", "trust-java8.p12", "trust-openssl.p12", "trust-unencrypted.p12"])
def test_trusted_certificates(name: str) -> None:
    assert names(read_pkcs12(content(name), STORE_PASSWORD).anchors) == ["CN=Lab CA"]
    with pytest.raises(WrongStorePasswordError):
        read_pkcs12(content(name), "wrong")


@pytest.mark.parametrize("name", ISSUERS)
def test_certificates_that_java_trusts(name: str) -> None:
    """What Java's trust manager accepts with the same store. Only stores without private keys and without Java's
    attribute differ."""
    found = names(read_pkcs12(content(name), STORE_PASSWORD).anchors)
    if name in OF_OPENSSL:
        assert (ISSUERS[name], len(found)) == ([], 1)
    elif ISSUERS[name] is not None:
        assert set(found) == set(ISSUERS[name])


def test_certificates_whose_attributes_cannot_be_read() -> None:
    store = read_pkcs12(content("named-ca-camellia.p12"), STORE_PASSWORD)
    assert (names(store.anchors), store.undecided) == (["CN=client"], ("corp ca",))


@pytest.mark.parametrize("name", sorted(ISSUERS.keys() - {"named-ca-camellia.p12"}))
def test_other_certificates_are_decided(name: str) -> None:
    assert read_pkcs12(content(name), STORE_PASSWORD).undecided == ()


def test_one_certificate_with_the_attribute_of_java() -> None:
    """Then the others of the store are not trusted, also without private keys."""
    version, authenticated = parse(content("trust-open.p12")).children
    both = (parse(content(name)).children[1] for name in ("trust-open.p12", "trust-openssl-open.p12"))
    safes = b"".join(parse(parse(one.children[1].content).content).content for one in both)
    explicit = encode(EXPLICIT, encode(OCTETS, encode(SEQUENCE, safes)))
    together = encode(SEQUENCE, version.raw + encode(SEQUENCE, authenticated.children[0].raw + explicit))
    assert names(read_pkcs12(together, None).anchors) == ["CN=Lab CA"]


@pytest.mark.parametrize("name", ["trust-open.p12", "trust-unencrypted.p12"])
def test_unencrypted_certificates_need_no_password(name: str) -> None:
    assert names(read_pkcs12(content(name), None).anchors) == ["CN=Lab CA"]


def test_private_key_needs_no_password_to_read_the_certificates_of_its_store() -> None:
    assert names(read_pkcs12(content("without-mac.p12"), None).anchors) == ["CN=client"]


@pytest.mark.parametrize("name", ["trust.p12", "identity.p12"])
def test_encrypted_certificates_need_a_password(name: str) -> None:
    with pytest.raises(PasswordRequiredError):
        read_pkcs12(content(name), None)


def test_lengths_that_are_known_only_at_the_end() -> None:
    """BER, which some tools write. The library finds the private key."""
    indefinite = b"\x30\x80" + parse(content("identity.p12")).content + b"\x00\x00"
    (entry,) = read_pkcs12(indefinite, STORE_PASSWORD).keys
    assert (entry.alias, fits(entry.decrypt(STORE_PASSWORD))) == ("client", True)


def test_key_without_certificate_and_name() -> None:
    key = pkcs12.load_pkcs12(content("identity.p12"), STORE_PASSWORD.encode()).key
    assert isinstance(key, EllipticCurvePrivateKey)
    raw = pkcs12.serialize_key_and_certificates(None, key, None, None, BestAvailableEncryption(b"sesame"))
    (entry,) = read_pkcs12(raw, "sesame").keys
    assert (entry.alias, entry.certificate, entry.decrypt("sesame").chain) == ("1", None, ())


def test_key_that_cannot_be_read() -> None:
    """The bag of the key of an unknown algorithm: the certificates remain readable."""
    damaged = content("without-mac.p12").replace(PBES2, UNKNOWN)
    (entry,) = read_pkcs12(damaged, None).keys
    with pytest.raises(StoreError, match="Unknown key encryption algorithm"):
        entry.decrypt(STORE_PASSWORD)


@pytest.mark.parametrize("raw", [b"\x30", b"\x30\x03\x02\x01\x03", encode(SEQUENCE, bytes(300)), b"\x31\x00"])
def test_damaged_files(raw: bytes) -> None:
    with pytest.raises(StoreError, match=r"damaged|encrypted"):
        read_pkcs12(raw, STORE_PASSWORD)
    with pytest.raises(StoreError):
        read_pkcs12(raw, None)


def test_damaged_certificate() -> None:
    """The library finds that the key is on no known curve when it is asked for."""
    curve = bytes.fromhex("06082a8648ce3d030107")
    damaged = content("without-mac.p12")
    assert curve in damaged
    (entry,) = read_pkcs12(damaged.replace(curve, curve[:-1] + b"\x7f"), None).keys
    with pytest.raises(StoreError, match="a certificate is damaged or not supported"):
        entry.decrypt(STORE_PASSWORD)
