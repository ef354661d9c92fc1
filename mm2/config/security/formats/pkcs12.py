"""Key stores of type PKCS12 (RFC 7292), as keytool and openssl write them.

Certificates are decrypted by the library, which supports the algorithms of Java 8 (RC2 and 3DES), Java 17 (PBES2) and
openssl. It returns one private key without its alias, so the bags of private keys, which are not encrypted as a whole,
are read here: a store can have several, with a password of their own. The MAC is verified before anything is used.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12Certificate,
    PKCS12KeyAndCertificates,
    load_pkcs12,
)

from mm2.config.security.formats.der import EXPLICIT, OCTETS, SEQUENCE, DerError, Element, encode, parse
from mm2.config.security.formats.key_store import (
    Identity,
    KeyEntry,
    KeyStore,
    PasswordRequiredError,
    StoreError,
    WrongKeyPasswordError,
    WrongStorePasswordError,
    once,
)
from mm2.config.security.formats.pkcs12_mac import verify_mac

START = b"\x30"
"""First byte of a PKCS12 store, a DER sequence."""

_DATA = bytes.fromhex("2a864886f70d010701")  # 1.2.840.113549.1.7.1
_KEY_BAG = bytes.fromhex("2a864886f70d010c0a0101")  # 1.2.840.113549.1.12.10.1.1
_SHROUDED_KEY_BAG = bytes.fromhex("2a864886f70d010c0a0102")  # 1.2.840.113549.1.12.10.1.2
_FRIENDLY_NAME = bytes.fromhex("2a864886f70d010914")  # 1.2.840.113549.1.9.20


@dataclass(frozen=True, slots=True)
class _Bag:
    """A private key: its alias, and its PrivateKeyInfo or EncryptedPrivateKeyInfo (RFC 5208)."""

    alias: str
    key: bytes
    is_encrypted: bool


@dataclass(frozen=True, slots=True)
class _Structure:
    """``bags``: the private keys that are readable without the store's password. ``rest``: the store without them and
    without its MAC. ``is_encrypted``: whether anything in ``rest`` is. ``mac``: MacData over ``authenticated``; None:
    the store has none."""

    bags: tuple[_Bag, ...]
    rest: bytes
    is_encrypted: bool
    mac: Element | None = None
    authenticated: bytes = b""


def read_pkcs12(content: bytes, password: str | None) -> KeyStore:
    """Read a PKCS12 store. Without a password its integrity is not verified, and its certificates must not be
    encrypted, as in Java. Raises StoreError.

    In a store with private keys, a certificate is trusted if it has a name of its own: keytool names the certificates
    of a chain after their subjects, openssl does not name them. In a store without private keys all are trusted; Java
    ignores those that lack its own attribute for trusted certificates.
    """
    try:
        structure = _structure(content)
    except (DerError, ValueError, IndexError):  # not DER: the library also reads BER
        structure = _Structure((), content, is_encrypted=True)
    loaded = _load(content, structure, password)
    certificates = [*([loaded.cert] if loaded.cert is not None else []), *loaded.additional_certs]
    keys = tuple(_entry(bag, certificates) for bag in structure.bags)
    if not keys and loaded.key is not None:
        keys = (_only_entry(loaded, certificates),)
    if not keys:
        return KeyStore(trusted=tuple(_der(one.certificate) for one in certificates))
    names = {entry.alias for entry in keys}
    return KeyStore(
        keys=keys,
        trusted=tuple(
            _der(one.certificate)
            for one in certificates
            if (name := _name(one)) and "=" not in name and name not in names
        ),
    )


def _load(content: bytes, structure: _Structure, password: str | None) -> PKCS12KeyAndCertificates:
    if password is None:
        if structure.is_encrypted:
            raise PasswordRequiredError
        return _load_part(structure.rest, None)
    if structure.mac is not None:
        verify_mac(structure.mac, structure.authenticated, password)
    try:
        return _load_part(content, password)
    except StoreError:
        if not structure.bags or not structure.is_encrypted:
            raise
        return _load_part(structure.rest, password)  # the keys have another password


def _load_part(content: bytes, password: str | None) -> PKCS12KeyAndCertificates:
    with warnings.catch_warnings():  # about BER
        warnings.simplefilter("ignore", UserWarning)
        try:
            return load_pkcs12(content, None if password is None else password.encode())
        except (ValueError, UnsupportedAlgorithm) as error:
            if password is not None and "password" in str(error):
                raise WrongStorePasswordError from error
            raise StoreError(f"the file is damaged, no PKCS12 store, or not supported ({error})") from error


def _structure(content: bytes) -> _Structure:
    version, authenticated, *mac = parse(content).children
    bags: list[_Bag] = []
    rest: list[bytes] = []
    is_encrypted = False
    safes = _octets(authenticated)
    for safe in parse(safes).children:
        if safe.children[0].content != _DATA:
            is_encrypted = True
            rest.append(safe.raw)
            continue
        others = b""
        for bag in parse(_octets(safe)).children:
            if bag.children[0].content in (_KEY_BAG, _SHROUDED_KEY_BAG):
                bags.append(_bag(bag, len(bags)))
            else:
                others += bag.raw
        rest.append(_safe(others))
    without_keys = encode(SEQUENCE, version.raw + _safe(b"".join(rest)))
    return _Structure(tuple(bags), without_keys, is_encrypted, mac[0] if mac else None, safes)


def _octets(safe: Element) -> bytes:
    """Return the content of a ContentInfo of type data. Raises DerError if it is in several parts, as in BER."""
    _, explicit = safe.children
    octets = parse(explicit.content)
    if octets.tag != OCTETS:
        raise DerError
    return octets.content


def _safe(content: bytes) -> bytes:
    """Return the ContentInfo of type data with these elements."""
    inner = encode(OCTETS, encode(SEQUENCE, content))
    return encode(SEQUENCE, encode(6, _DATA) + encode(EXPLICIT, inner))


def _bag(bag: Element, number: int) -> _Bag:
    kind, value, *attributes = bag.children
    alias = str(number + 1)
    for attribute in attributes[0].children if attributes else ():
        name, values = attribute.children
        if name.content == _FRIENDLY_NAME:
            alias = values.children[0].content.decode("utf-16-be")
    return _Bag(alias.lower(), value.content, is_encrypted=kind.content == _SHROUDED_KEY_BAG)


def _entry(bag: _Bag, certificates: list[PKCS12Certificate]) -> KeyEntry:
    own = next((_der(one.certificate) for one in certificates if _name(one) == bag.alias), None)
    return KeyEntry(alias=bag.alias, certificate=own, decrypt=once(partial(_decrypt, bag, certificates)))


def _decrypt(bag: _Bag, certificates: list[PKCS12Certificate], password: str) -> Identity:
    try:
        key = load_der_private_key(bag.key, password.encode() if bag.is_encrypted else None)
    except (ValueError, UnsupportedAlgorithm) as error:
        if "Incorrect password" in str(error):
            raise WrongKeyPasswordError from error
        raise StoreError(f"it cannot be read ({error})") from error
    return _identity(key, certificates)


def _only_entry(loaded: PKCS12KeyAndCertificates, certificates: list[PKCS12Certificate]) -> KeyEntry:
    """Return the entry of a key that is encrypted together with the certificates."""
    key, own = loaded.key, loaded.cert
    assert key is not None
    return KeyEntry(
        alias=(_name(own) if own else None) or "1",
        certificate=_der(own.certificate) if own else None,
        decrypt=lambda _: _identity(key, certificates),
    )


def _identity(key: PrivateKeyTypes, certificates: list[PKCS12Certificate]) -> Identity:
    """Return the key with the chain that follows from the issuers, as Java builds it."""
    try:
        chain = _chain(_public(key), certificates)
    except (ValueError, UnsupportedAlgorithm) as error:  # the library parses names and keys when they are asked for
        raise StoreError(f"a certificate is damaged or not supported ({error})") from error
    pkcs8 = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return Identity(key=pkcs8, chain=tuple(map(_der, chain)))


def _chain(public: bytes, certificates: list[PKCS12Certificate]) -> list[x509.Certificate]:
    chain: list[x509.Certificate] = []
    following = [one.certificate for one in certificates if _public(one.certificate) == public]
    while following:
        chain.append(following[0])
        issuer = chain[-1].issuer
        following = [
            one.certificate
            for one in certificates
            if one.certificate.subject == issuer and one.certificate not in chain
        ]
    return chain


def _public(owner: PrivateKeyTypes | x509.Certificate) -> bytes:
    return owner.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)


def _name(certificate: PKCS12Certificate) -> str | None:
    return None if certificate.friendly_name is None else certificate.friendly_name.decode(errors="replace").lower()
