"""Key stores of type JKS and JCEKS, read without a JVM.

Both have the same structure (Java's sun.security.provider.JavaKeyStore and com.sun.crypto.provider.JceKeyStore). All
numbers are big-endian; a string is a u2 length and modified UTF-8::

    store       = magic:u4 version:u4 count:u4 entry* sha1:20 bytes
    entry       = 1:u4 alias:string created:u8 length:u4 protected-key count:u4 certificate*
                | 2:u4 alias:string created:u8 certificate
                | 3:u4 alias:string created:u8 secret key, a serialized Java object           (JCEKS)
    certificate = type:string (version 2 only) length:u4 DER

``sha1`` is that of the password in UTF-16, the text "Mighty Aphrodite", and everything before it. A protected key is an
EncryptedPrivateKeyInfo (`mm2.config.security.tls.formats.sun_keys`).
"""

from __future__ import annotations

import hashlib
from functools import partial
from hmac import compare_digest

from mm2.config.security.tls.formats.key_store import (
    Identity,
    KeyEntry,
    KeyStore,
    StoreError,
    WrongStorePasswordError,
    once,
)
from mm2.config.security.tls.formats.sun_keys import decrypt, sun_password

JKS_MAGIC, JCEKS_MAGIC = b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"

_WHITENER = b"Mighty Aphrodite"
_DIGEST = 20  # bytes of SHA-1
_PRIVATE_KEY, _TRUSTED, _SECRET_KEY = 1, 2, 3


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
