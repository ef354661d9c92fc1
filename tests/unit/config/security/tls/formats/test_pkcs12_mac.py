"""Stores that were changed without their password, and the algorithms of MACs."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import PrivateFormat, pkcs12

from mm2.config.security.tls.formats.der import EXPLICIT, INTEGER, OCTETS, SEQUENCE, Element, encode, parse
from mm2.config.security.tls.formats.key_store import StoreError, WrongStorePasswordError
from mm2.config.security.tls.formats.pkcs12 import read_pkcs12
from tests.unit.config.security.tls.formats.golden import KEY_PASSWORD, STORE_PASSWORD, content, fits, names

OID = 0x06
SHA_1, SHA_256 = bytes.fromhex("2b0e03021a"), bytes.fromhex("608648016503040201")
MD5 = bytes.fromhex("2a864886f70d0205")
HMAC_SHA_1, HMAC_SHA_256 = bytes.fromhex("2a864886f70d0207"), bytes.fromhex("2a864886f70d0209")
PBMAC1, PBKDF2, SCRYPT = (
    bytes.fromhex(oid) for oid in ("2a864886f70d01050e", "2a864886f70d01050c", "2b06010401da47040b")
)
SALT = encode(OCTETS, b"saltsalt")


def parts(name: str) -> tuple[Element, Element, Element]:
    """The version, the authSafe and the MacData of a store."""
    version, authenticated, mac = parse(content(name)).children
    return version, authenticated, mac


def safes(authenticated: Element) -> bytes:
    """What the MAC is computed over."""
    return parse(authenticated.children[1].content).content


def number(value: int) -> bytes:
    return encode(INTEGER, value.to_bytes(4))


def algorithm(oid: bytes, *parameters: bytes) -> bytes:
    return encode(SEQUENCE, encode(OID, oid) + b"".join(parameters))


def mac_data(kind: bytes, digest: bytes, *rest: bytes) -> bytes:
    return encode(SEQUENCE, encode(SEQUENCE, kind + encode(OCTETS, digest)) + b"".join(rest))


def store(mac: bytes, name: str = "identity.p12") -> bytes:
    """A golden store with another MacData."""
    version, authenticated, _ = parts(name)
    return encode(SEQUENCE, version.raw + authenticated.raw + mac)


@pytest.mark.parametrize(
    "name",
    [
        "identity.p12",
        "identity-java8.p12",
        "identity-openssl.p12",
        "identity-openssl-legacy.p12",
        "key-password.p12",
        "several.p12",
        "trust.p12",
        "trust-unencrypted.p12",
    ],
)
def test_corrupted_mac(name: str) -> None:
    *_, mac = parts(name)
    digest = mac.children[0].children[1].content
    damaged = content(name).replace(digest, bytes((digest[0] ^ 1,)) + digest[1:])
    with pytest.raises(WrongStorePasswordError):
        read_pkcs12(damaged, STORE_PASSWORD)


@pytest.mark.parametrize("name", ["identity.p12", "key-password.p12", "several.p12"])
def test_added_certificate(name: str) -> None:
    version, authenticated, mac = parts(name)
    (trusted,) = parse(safes(parts("trust-unencrypted.p12")[1])).children
    more = encode(OCTETS, encode(SEQUENCE, parse(safes(authenticated)).content + trusted.raw))
    changed = encode(SEQUENCE, authenticated.children[0].raw + encode(EXPLICIT, more))
    without_mac = encode(SEQUENCE, version.raw + changed)
    assert "CN=Lab CA" in names(read_pkcs12(without_mac, STORE_PASSWORD).anchors)
    with pytest.raises(WrongStorePasswordError):
        read_pkcs12(encode(SEQUENCE, version.raw + changed + mac.raw), STORE_PASSWORD)


@pytest.mark.parametrize(
    "digest",
    [hashes.SHA1(), hashes.SHA224(), hashes.SHA256(), hashes.SHA384(), hashes.SHA512()],
    ids=lambda digest: digest.name,
)
@pytest.mark.parametrize("password", ["sesame", "größe 𝄞", "x" * 100])
def test_digests(digest: hashes.HashAlgorithm, password: str) -> None:
    key = pkcs12.load_pkcs12(content("identity.p12"), STORE_PASSWORD.encode()).key
    assert isinstance(key, EllipticCurvePrivateKey)
    encryption = PrivateFormat.PKCS12.encryption_builder().hmac_hash(digest).build(password.encode())
    raw = pkcs12.serialize_key_and_certificates(b"client", key, None, None, encryption)
    (entry,) = read_pkcs12(raw, password).keys
    assert entry.alias == "client"
    with pytest.raises(WrongStorePasswordError):
        read_pkcs12(raw, f"{password}x")


@pytest.mark.parametrize("terminator", [b"\0\0", b""])
def test_empty_password(terminator: bytes) -> None:
    """With one iteration, the default, and all inputs of the key derivation written out."""
    version, authenticated, _ = parts("trust-unencrypted.p12")
    block = b"\x03" * 64 + b"saltsalt" * 8 + terminator * 32
    digest = hmac.digest(hashlib.sha256(block).digest(), safes(authenticated), "sha256")
    raw = encode(SEQUENCE, version.raw + authenticated.raw + mac_data(algorithm(SHA_256), digest, SALT))
    assert names(read_pkcs12(raw, "").anchors) == ["CN=Lab CA"]
    with pytest.raises(WrongStorePasswordError):
        read_pkcs12(raw, "x")


def pbmac1(derivation: bytes, scheme: bytes = HMAC_SHA_256) -> bytes:
    return algorithm(PBMAC1, encode(SEQUENCE, derivation + algorithm(scheme)))


def pbkdf2(*inputs: bytes) -> bytes:
    return algorithm(PBKDF2, encode(SEQUENCE, b"".join(inputs)))


@pytest.mark.parametrize("pseudo_random", ["sha1", "sha256"])
def test_pbmac1(pseudo_random: str) -> None:
    """The library verifies it too. SHA-1 is the default."""
    inputs = [SALT, number(2_000), number(32), *([algorithm(HMAC_SHA_256)] if pseudo_random == "sha256" else [])]
    key = hashlib.pbkdf2_hmac(pseudo_random, STORE_PASSWORD.encode(), b"saltsalt", 2_000, 32)
    kind = pbmac1(pbkdf2(*inputs))
    raw = store(mac_data(kind, hmac.digest(key, safes(parts("identity.p12")[1]), "sha256"), SALT, number(1)))
    (entry,) = read_pkcs12(raw, STORE_PASSWORD).keys
    assert fits(entry.decrypt(STORE_PASSWORD))
    with pytest.raises(WrongStorePasswordError):
        read_pkcs12(raw, KEY_PASSWORD)
    with pytest.raises(WrongStorePasswordError):
        read_pkcs12(store(mac_data(kind, bytes(32), SALT, number(1))), STORE_PASSWORD)


@pytest.mark.parametrize(
    ("mac", "reason"),
    [
        (mac_data(algorithm(MD5), bytes(16), SALT), r"algorithm 1\.2\.840\.113549\.2\.5 of its MAC is not supported"),
        (mac_data(pbmac1(algorithm(SCRYPT, SALT)), bytes(32)), r"derivation 1\.3\.6\.1\.4\.1\.11591\.4\.11 of its MAC"),
        (mac_data(pbmac1(pbkdf2(SALT, number(1))), bytes(32)), "no key length"),
        (mac_data(pbmac1(pbkdf2(SALT, number(1), algorithm(HMAC_SHA_1))), bytes(32)), "no key length"),
        (mac_data(pbmac1(pbkdf2(SALT, number(1), number(5_000))), bytes(32)), "is 5000; at most 1024 is supported"),
        (mac_data(pbmac1(pbkdf2(SALT, number(1), number(32)), MD5), bytes(32)), r"algorithm 1\.2\..* is not supported"),
        (mac_data(algorithm(SHA_1), bytes(20), SALT, number(2**31 - 1)), "is 2147483647; at most 5000000 is supported"),
        (mac_data(algorithm(SHA_1), bytes(20), SALT, number(0)), "its MAC is damaged"),
        (mac_data(algorithm(SHA_1), bytes(20), number(1)), "its MAC is damaged"),
        (mac_data(algorithm(SHA_1), bytes(20)), "its MAC is damaged"),
        (mac_data(algorithm(PBMAC1), bytes(20)), "its MAC is damaged"),
        (mac_data(algorithm(b""), bytes(20)), "its MAC is damaged"),
        (encode(SEQUENCE, b""), "its MAC is damaged"),
        (encode(SEQUENCE, b"\x30"), "its MAC is damaged"),
    ],
)
def test_unusable_macs(mac: bytes, reason: str) -> None:
    with pytest.raises(StoreError, match=reason):
        read_pkcs12(store(mac), STORE_PASSWORD)


def test_content_in_several_parts() -> None:
    """BER: the library joins the parts, and verifies the MAC."""
    version, authenticated, mac = parts("identity.p12")
    text = safes(authenticated)
    joined = encode(OCTETS | 0x20, encode(OCTETS, text[:100]) + encode(OCTETS, text[100:]))
    parted = encode(SEQUENCE, authenticated.children[0].raw + encode(EXPLICIT, joined))
    (entry,) = read_pkcs12(encode(SEQUENCE, version.raw + parted + mac.raw), STORE_PASSWORD).keys
    assert fits(entry.decrypt(STORE_PASSWORD))
    with pytest.raises(WrongStorePasswordError):
        read_pkcs12(encode(SEQUENCE, version.raw + parted + mac.raw), KEY_PASSWORD)
