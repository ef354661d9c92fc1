"""Encrypted parts of PKCS12 stores (RFC 7292), with the algorithms that keytool and openssl use."""

from __future__ import annotations

from collections.abc import Callable

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import BlockCipherAlgorithm, Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC

from mm2.config.security.tls.formats.der import INTEGER, SEQUENCE, DerError, Element, parse
from mm2.config.security.tls.formats.pkcs12_kdf import (
    FOR_KEY,
    FOR_VECTOR,
    HMACS,
    MOST_ITERATIONS,
    PBKDF2,
    derive,
    pbkdf2,
    spellings,
)

_WITH_SHA1 = bytes.fromhex("2a864886f70d010c01")  # 1.2.840.113549.1.12.1
_TRIPLE_DES = _WITH_SHA1 + b"\x03"
_TRIPLE_DES_KEY = 24  # bytes
_RC2 = {_WITH_SHA1 + b"\x05": 16, _WITH_SHA1 + b"\x06": 5}
"""Bytes of their keys."""

_PBES2 = bytes.fromhex("2a864886f70d01050d")  # 1.2.840.113549.1.5.13
_AES = bytes.fromhex("6086480165030401")  # 2.16.840.1.101.3.4.1
_CIPHERS: dict[bytes, tuple[Callable[[bytes], BlockCipherAlgorithm], int]] = {
    _AES + b"\x02": (AES, 16),
    _AES + b"\x16": (AES, 24),
    _AES + b"\x2a": (AES, 32),
    bytes.fromhex("2a864886f70d0307"): (TripleDES, 24),  # 1.2.840.113549.3.7
}

_OCTETS, _PARTS = 0x80, 0xA0
"""Tags of encrypted content: one string of octets, or several."""


def decrypted(encrypted_data: Element, password: str) -> Element | None:
    """Return the SafeContents in an EncryptedData; None if it is damaged, or its algorithm or password is another."""
    try:
        _, info = encrypted_data.children
        _, algorithm, content = info.children
        return _opened(algorithm, _joined(content), password)
    except (DerError, ValueError, LookupError, UnsupportedAlgorithm):
        return None


def decrypted_key(encrypted_key: bytes, password: str) -> bytes | None:
    """Return the PrivateKeyInfo in an EncryptedPrivateKeyInfo (RFC 5208); None as in `decrypted`. Unlike the library it
    accepts an empty password."""
    try:
        algorithm, content = parse(encrypted_key).children
        found = _opened(algorithm, content.content, password)
    except (DerError, ValueError, LookupError, UnsupportedAlgorithm):
        return None
    return None if found is None else found.raw


def _opened(algorithm: Element, data: bytes, password: str) -> Element | None:
    kind, parameters = algorithm.children
    if kind.content == _PBES2:
        return _contents(_pbes2(parameters, password, data))
    found = (_with_sha1(kind.content, parameters, spelling, data) for spelling in spellings(password))
    return next((element for padded in found if (element := _contents(padded)) is not None), None)


def _joined(content: Element) -> bytes:
    if content.tag not in (_OCTETS, _PARTS):
        raise DerError
    return content.content if content.tag == _OCTETS else b"".join(part.content for part in content.children)


def _contents(padded: bytes) -> Element | None:
    """Return the sequence before the padding; None if there is none, which is the case with another password."""
    try:
        found = parse(padded[: -padded[-1]])
    except (DerError, IndexError):
        return None
    return found if found.tag == SEQUENCE else None


def _with_sha1(kind: bytes, parameters: Element, password: bytes, data: bytes) -> bytes:
    salt, iterations = parameters.children
    count = _number(iterations)

    def derived(purpose: int, length: int) -> bytes:
        return derive("sha1", purpose, password, salt.content, count, length=length)

    vector = derived(FOR_VECTOR, 8)
    if kind in _RC2:
        return _decrypted_rc2(derived(FOR_KEY, _RC2[kind]), vector, data)
    if kind == _TRIPLE_DES:
        return _decrypted(TripleDES(derived(FOR_KEY, _TRIPLE_DES_KEY)), vector, data)
    raise DerError


def _decrypted_rc2(key: bytes, vector: bytes, data: bytes) -> bytes:
    """As `_decrypted` with RC2, whose keys of 40 bits `cryptography` does not have."""
    from Crypto.Cipher import ARC2  # noqa: PLC0415 a store that Java wrote before 2021 is rare

    cipher = ARC2.new(key, ARC2.MODE_CBC, vector, effective_keylen=8 * len(key))  # noqa: S304 only to read old stores
    return cipher.decrypt(data)


def _pbes2(parameters: Element, password: str, data: bytes) -> bytes:
    derivation, scheme = parameters.children
    function, inputs = derivation.children
    if function.content != PBKDF2:
        raise DerError
    salt, iterations, *rest = inputs.children
    functions = [element for element in rest if element.tag != INTEGER]  # the number is the length of the key
    digest = HMACS[functions[0].children[0].content] if functions else "sha1"
    identifier, vector = scheme.children
    cipher, size = _CIPHERS[identifier.content]
    key = pbkdf2(digest, password, salt.content, _number(iterations), size)
    return _decrypted(cipher(key), vector.content, data)


def _decrypted(cipher: BlockCipherAlgorithm, vector: bytes, data: bytes) -> bytes:
    decryptor = Cipher(cipher, CBC(vector)).decryptor()
    return decryptor.update(data) + decryptor.finalize()


def _number(element: Element) -> int:
    number = int.from_bytes(element.content)
    if element.tag != INTEGER or not 0 < number <= MOST_ITERATIONS:
        raise DerError
    return number
