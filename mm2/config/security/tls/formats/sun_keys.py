"""Private keys as JKS and JCEKS stores protect them: EncryptedPrivateKeyInfo (RFC 5208) with algorithms of Sun.

JKS (sun.security.provider.KeyProtector): the key is combined with a stream of SHA-1 digests, each of the password and
the digest before it, starting with a salt; a digest of password and key follows. JCEKS
(com.sun.crypto.provider.KeyProtector): PBEWithMD5AndTripleDES, whose key and initialization vector are repeated MD5
digests of the two halves of the salt, each with the password.
"""

from __future__ import annotations

import hashlib
from hmac import compare_digest

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7

from mm2.config.security.tls.formats.der import DerError, Element, parse
from mm2.config.security.tls.formats.key_store import StoreError, WrongKeyPasswordError

_JKS = bytes.fromhex("2b060104012a02110101")  # 1.3.6.1.4.1.42.2.17.1.1
_JCEKS = bytes.fromhex("2b060104012a021301")  # 1.3.6.1.4.1.42.2.19.1
_DIGEST = 20  # bytes of SHA-1, and of the salt
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
    salt, encrypted, digest = data[:_DIGEST], data[_DIGEST:-_DIGEST], data[-_DIGEST:]
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
