"""The MAC of a PKCS12 store (RFC 7292, section 4), which proves that nothing was changed without its password.

Two kinds exist: HMAC with a key derived as in appendix B of RFC 7292, which keytool and openssl write by default, and
PBMAC1 with PBKDF2 (RFC 9579).
"""

from __future__ import annotations

import hmac

from mm2.config.security.tls.formats.der import INTEGER, OCTETS, DerError, Element
from mm2.config.security.tls.formats.key_store import StoreError, WrongStorePasswordError
from mm2.config.security.tls.formats.pkcs12_kdf import (
    FOR_MAC,
    HMACS,
    MOST_ITERATIONS,
    PBKDF2,
    derive,
    pbkdf2,
    spellings,
)

_DIGESTS = {
    bytes.fromhex("2b0e03021a"): "sha1",  # 1.3.14.3.2.26
    **{
        bytes.fromhex("6086480165030402") + bytes((arc,)): name  # 2.16.840.1.101.3.4.2.arc
        for arc, name in enumerate(("sha256", "sha384", "sha512", "sha224", "sha512_224", "sha512_256"), 1)
    },
}

_PBMAC1 = bytes.fromhex("2a864886f70d01050e")  # 1.2.840.113549.1.5.14

_LONGEST_KEY = 1_024
"""Bytes of a key of PBMAC1, which is as long as a digest."""


def verify_mac(mac_data: Element, content: bytes, password: str) -> None:
    """Verify a store's MacData over ``content``, the content of its authSafe.

    Raises WrongStorePasswordError if the MAC is another one, and StoreError if it is damaged or not supported.
    """
    try:
        mac, *rest = mac_data.children
        algorithm, expected = mac.children
        kind, *parameters = algorithm.children
        if kind.content == _PBMAC1:
            matches = hmac.compare_digest(_pbmac1(parameters[0], content, password), expected.content)
        else:
            digest = _known(_DIGESTS, kind)
            salt = _octets(rest[0])
            iterations = _number(rest[1]) if rest[1:] else 1
            matches = any(
                hmac.compare_digest(
                    hmac.digest(derive(digest, FOR_MAC, one, salt, iterations), content, digest), expected.content
                )
                for one in spellings(password)
            )
    except (DerError, ValueError, IndexError) as error:
        raise StoreError("its MAC is damaged") from error
    if not matches:
        raise WrongStorePasswordError


def _pbmac1(parameters: Element, content: bytes, password: str) -> bytes:
    derivation, scheme = parameters.children
    function, inputs = derivation.children
    if function.content != PBKDF2:
        raise StoreError(f"the key derivation {_dotted(function.content)} of its MAC is not supported")
    salt, iterations, *rest = inputs.children
    if not rest or rest[0].tag != INTEGER:
        raise StoreError("its MAC has no key length, which RFC 9579 requires")
    length = _number(rest[0], _LONGEST_KEY)
    pseudo_random = _known(HMACS, rest[1].children[0]) if rest[1:] else "sha1"
    key = pbkdf2(pseudo_random, password, _octets(salt), _number(iterations), length)
    return hmac.digest(key, content, _known(HMACS, scheme.children[0]))


def _known(names: dict[bytes, str], algorithm: Element) -> str:
    name = names.get(algorithm.content)
    if name is None:
        raise StoreError(f"the algorithm {_dotted(algorithm.content)} of its MAC is not supported")
    return name


def _dotted(identifier: bytes) -> str:
    numbers, number = [], 0
    for byte in identifier:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _octets(element: Element) -> bytes:
    if element.tag != OCTETS:
        raise DerError
    return element.content


def _number(element: Element, most: int = MOST_ITERATIONS) -> int:
    """Return a number from 1 to ``most``."""
    number = int.from_bytes(element.content, signed=True)
    if element.tag != INTEGER or number < 1:
        raise DerError
    if number > most:
        raise StoreError(f"a number in its MAC is {number}; at most {most} is supported")
    return number
