"""Encrypted parts of stores. What keytool and openssl write is in test_pkcs12.py."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC

from mm2.config.security.tls.formats.der import EXPLICIT, INTEGER, OCTETS, SEQUENCE, Element, encode, parse
from mm2.config.security.tls.formats.pkcs12_encryption import decrypted, decrypted_key
from tests.unit.config.security.tls.formats.golden import STORE_PASSWORD, content

OID = 0x06
PBES2, PBKDF2 = bytes.fromhex("2a864886f70d01050d"), bytes.fromhex("2a864886f70d01050c")
AES_128, DATA = bytes.fromhex("608648016503040102"), bytes.fromhex("2a864886f70d010701")
VECTOR = b"initial vector.."


def part(name: str) -> Element:
    """The EncryptedData of a store."""
    safes = parse(parse(parse(content(name)).children[1].children[1].content).content)
    (found,) = (safe.children[1] for safe in safes.children if safe.children[0].content != DATA)
    return found.children[0]


def encrypted(
    plain: bytes, *, tag: int = 0x80, salt: bytes = b"salt", iterations: int = 2, kdf: bytes = PBKDF2
) -> Element:
    """An EncryptedData with PBES2 without the optional fields: SHA-1, and no length of the key."""
    key = PBKDF2HMAC(SHA1(), 16, b"salt", 2).derive(STORE_PASSWORD.encode())
    encryptor = Cipher(AES(key), CBC(VECTOR)).encryptor()
    missing = 16 - len(plain) % 16
    data = encryptor.update(plain + bytes((missing,)) * missing) + encryptor.finalize()
    halves = encode(OCTETS, data[:7]) + encode(OCTETS, data[7:])
    count = encode(INTEGER, iterations.to_bytes(4, signed=True))
    derivation = sequence(encode(OID, kdf), sequence(encode(OCTETS, salt), count))
    scheme = sequence(encode(OID, AES_128), encode(OCTETS, VECTOR))
    algorithm = sequence(encode(OID, PBES2), sequence(derivation, scheme))
    content_of_part = encode(tag, halves if tag == EXPLICIT else data)
    return parse(sequence(encode(INTEGER, b"\0"), sequence(encode(OID, DATA), algorithm, content_of_part)))


def sequence(*elements: bytes) -> bytes:
    return encode(SEQUENCE, b"".join(elements))


CONTENTS = sequence(encode(INTEGER, b"\1"))


@pytest.mark.parametrize("tag", [0x80, EXPLICIT])
def test_contents_in_one_part_or_several(tag: int) -> None:
    found = decrypted(encrypted(CONTENTS, tag=tag), STORE_PASSWORD)
    assert found is not None
    assert found.raw == CONTENTS


@pytest.mark.parametrize(
    "damaged",
    [
        encrypted(CONTENTS, tag=OCTETS),
        encrypted(CONTENTS, iterations=5_000_001),
        encrypted(CONTENTS, iterations=0),
        encrypted(CONTENTS, kdf=PBES2),
        encrypted(CONTENTS, salt=b"other"),
        encrypted(encode(INTEGER, b"\1")),
        encrypted(b"no element"),
        parse(sequence()),
    ],
)
def test_damaged_parts(damaged: Element) -> None:
    assert decrypted(damaged, STORE_PASSWORD) is None


def test_other_algorithms() -> None:
    assert decrypted(part("named-ca-camellia.p12"), STORE_PASSWORD) is None
    rc2, rc4 = (bytes.fromhex("2a864886f70d010c01") + arc for arc in (b"\x06", b"\x01"))
    assert rc2 in part("trust-java8.p12").raw
    assert decrypted(parse(part("trust-java8.p12").raw.replace(rc2, rc4)), STORE_PASSWORD) is None


@pytest.mark.parametrize("name", ["trust-java8.p12", "trust-openssl.p12"])
def test_another_password(name: str) -> None:
    assert decrypted(part(name), STORE_PASSWORD) is not None
    assert decrypted(part(name), "other") is None


def test_damaged_keys() -> None:
    assert decrypted_key(b"?", "") is None
    assert decrypted_key(sequence(encode(OID, PBES2)), "") is None
