"""Key stores of type JKS and JCEKS, read without a JVM.

Both have the same structure (Java's sun.security.provider.JavaKeyStore and com.sun.crypto.provider.JceKeyStore). All
numbers are big-endian; a string is a u2 length and modified UTF-8::

    store       = magic:u4 version:u4 count:u4 entry* sha1:20 bytes
    entry       = 1:u4 alias:string created:u8 length:u4 protected-key count:u4 certificate*
                | 2:u4 alias:string created:u8 certificate
                | 3:u4 alias:string created:u8 secret key, a serialized Java object           (JCEKS)
    certificate = type:string (version 2 only) length:u4 DER

``sha1`` is that of the password in UTF-16, the text "Mighty Aphrodite", and everything before it. A protected key is an
EncryptedPrivateKeyInfo (`mm2.config.security.tls.formats.jks`).
"""

from __future__ import annotations

import hashlib
from functools import partial
from hmac import compare_digest

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7

from mm2.config.security.tls.formats.der import DerError, Element, parse
from mm2.config.security.tls.formats.key_store import (
    Identity,
    KeyEntry,
    KeyStore,
    StoreError,
    WrongKeyPasswordError,
    WrongStorePasswordError,
    once,
)

JKS_MAGIC, JCEKS_MAGIC = b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"

_WHITENER = b"Mighty Aphrodite"
_DIGEST = 20  # bytes of SHA-1
_PRIVATE_KEY, _TRUSTED, _SECRET_KEY = 1, 2, 3


_JKS = bytes.fromhex("2b060104012a02110101")  # 1.3.6.1.4.1.42.2.17.1.1
_JCEKS = bytes.fromhex("2b060104012a021301")  # 1.3.6.1.4.1.42.2.19.1
_DIGEST_BYTES = 20  # bytes of SHA-1, and of the salt
_SALT = 8  # bytes of the salt of PBEWithMD5AndTripleDES
_KEY = 24  # bytes of a key of TripleDES
_MOST_ROUNDS = 5_000_000  # Java's limit (jdk.jceks.iterationCount); it takes seconds


def sun_password(password: str) -> bytes:
    """Return the bytes of a password in JKS stores."""
    return password.encode("utf-16-be", "surrogatepass")


def decrypt(protected: bytes, password: str) -> bytes:
    """Return a private key as PKCS 8 in DER. Raises WrongKeyPasswordError, or StoreError if it cannot be read."""
    try:
        algorithm, data = parse(protected).children
        name, *parameters = algorithm.children
        if name.content == _JKS:
            return _decrypt_jks(data.content, password)
        if name.content == _JCEKS:
            return _decrypt_jceks(data.content, parameters[0], password)
    except (DerError, ValueError, IndexError) as error:
        raise StoreError("it is damaged") from error
    raise StoreError("it is encrypted with an unknown algorithm")


def _decrypt_jks(data: bytes, password: str) -> bytes:
    salt, encrypted, digest = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    secret = sun_password(password)
    stream, last = bytearray(), salt
    while len(stream) < len(encrypted):
        last = hashlib.sha1(secret + last, usedforsecurity=False).digest()
        stream += last
    key = bytes(one ^ other for one, other in zip(encrypted, stream, strict=False))
    if not compare_digest(hashlib.sha1(secret + key, usedforsecurity=False).digest(), digest):
        raise WrongKeyPasswordError
    return key


def _decrypt_jceks(data: bytes, parameters: Element, password: str) -> bytes:
    salt, count = (element.content for element in parameters.children)
    rounds = int.from_bytes(count)
    if len(salt) != _SALT or rounds > _MOST_ROUNDS:
        raise ValueError(rounds)
    halves = [salt[: _SALT // 2], salt[_SALT // 2 :]]
    material = b"".join(_repeated(half, password.encode(), rounds) for half in halves)
    decryptor = Cipher(TripleDES(material[:_KEY]), CBC(material[_KEY:])).decryptor()
    padded = decryptor.update(data) + decryptor.finalize()
    try:
        unpadder = PKCS7(TripleDES.block_size).unpadder()
        key = unpadder.update(padded) + unpadder.finalize()
        parse(key)  # one of 256 wrong passwords gives a valid padding
    except (ValueError, DerError) as error:
        raise WrongKeyPasswordError from error
    return key


def _repeated(half: bytes, password: bytes, rounds: int) -> bytes:
    for _ in range(rounds):
        half = hashlib.md5(half + password, usedforsecurity=False).digest()
    return half


def read_jks(content: bytes, password: str | None) -> KeyStore:
    """Read a JKS or JCEKS store. Without a password its integrity is not verified, as in Java. Raises StoreError."""
    body, digest = content[:-_DIGEST], content[-_DIGEST:]
    if password is not None:
        expected = hashlib.sha1(sun_password(password) + _WHITENER + body, usedforsecurity=False).digest()
        if not compare_digest(expected, digest):
            raise WrongStorePasswordError("the password is wrong, or the file is damaged")
    try:
        return _Reader(body).store()
    except (IndexError, UnicodeDecodeError) as error:
        raise StoreError("the file is damaged or incomplete") from error


def _identity(protected: bytes, chain: tuple[bytes, ...], password: str) -> Identity:
    return Identity(key=decrypt(protected, password), chain=chain)


class _Reader:
    """Position in the bytes of a store. Raises IndexError at the end."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 4  # after the magic number
        self._version = self._number(4)

    def store(self) -> KeyStore:
        if self._version not in (1, 2):
            raise StoreError(f"version {self._version} of the format is unknown")
        keys: list[KeyEntry] = []
        trusted: list[bytes] = []
        for _ in range(self._number(4)):
            tag, alias = self._number(4), self._string()
            self._bytes(8)
            if tag == _PRIVATE_KEY:
                protected = self._bytes(self._number(4))
                chain = tuple(self._certificate() for _ in range(self._number(4)))
                own = chain[0] if chain else None
                keys.append(KeyEntry(alias=alias, certificate=own, decrypt=once(partial(_identity, protected, chain))))
            elif tag == _TRUSTED:
                trusted.append(self._certificate())
            elif tag == _SECRET_KEY:
                raise StoreError(f'it contains a secret key ("{alias}"), which only Java can read')
            else:
                raise IndexError(tag)
        return KeyStore(keys=tuple(keys), trusted=tuple(trusted))

    def _certificate(self) -> bytes:
        if self._version == 2:
            self._string()
        return self._bytes(self._number(4))

    def _string(self) -> str:
        return self._bytes(self._number(2)).decode("utf-8", "surrogatepass")

    def _number(self, size: int) -> int:
        return int.from_bytes(self._bytes(size))

    def _bytes(self, size: int) -> bytes:
        found = self._content[self._at : self._at + size]
        if len(found) != size:
            raise IndexError(size)
        self._at += size
        return found
