"""Key stores of type PKCS12 (RFC 7292), as keytool and openssl write them.

Certificates are decrypted by the library, which supports the algorithms of Java 8 (RC2 and 3DES), Java 17 (PBES2) and
openssl. It returns one private key without its alias, so the bags of private keys, which are not encrypted as a whole,
are read here: a store can have several, with a password of their own. It does not return the attributes of certificates
either, so these are read a second time. The MAC is verified before anything is used.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
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

from mm2.config.security.tls.formats.der import EXPLICIT, OCTETS, SEQUENCE, DerError, Element, encode, parse
from mm2.config.security.tls.formats.key_store import (
    Identity,
    KeyEntry,
    KeyStore,
    PasswordRequiredError,
    StoreError,
    WrongKeyPasswordError,
    WrongStorePasswordError,
    once,
)
from mm2.config.security.tls.formats.pkcs12_bags import CertificateBag, KeyBag, is_key, read_certificates, read_key
from mm2.config.security.tls.formats.pkcs12_encryption import decrypted, decrypted_key
from mm2.config.security.tls.formats.pkcs12_mac import verify_mac

START = b"\x30"
"""First byte of a PKCS12 store, a DER sequence."""

_DATA = bytes.fromhex("2a864886f70d010701")  # 1.2.840.113549.1.7.1


@dataclass(frozen=True, slots=True)
class _Structure:
    """``bags``: the private keys that are readable without the store's password. ``rest``: the store without them and
    without its MAC. ``contents``: the parts that are not encrypted, SafeContents; ``encrypted``: the others,
    EncryptedData. ``mac``: MacData over ``authenticated``; None: the store has none."""

    bags: tuple[KeyBag, ...]
    rest: bytes
    contents: tuple[Element, ...] = ()
    encrypted: tuple[Element, ...] = ()
    mac: Element | None = None
    authenticated: bytes = b""


def read_pkcs12(content: bytes, password: str | None) -> KeyStore:
    """Read a PKCS12 store. Without a password its integrity is not verified, and its certificates must not be
    encrypted, as in Java. Raises StoreError.

    Certificates are trusted as in Java 8 and newer (checked with 17 and 25): those with Java's own attribute for
    trusted certificates, which keytool writes and openssl does not, and that of each encrypted private key. In a store
    without private keys and without the attribute all are trusted; Java trusts none of them.
    """
    try:
        structure = _structure(content)
    except (DerError, ValueError, IndexError):  # not DER: the library also reads BER
        structure = None
    loaded = _load(content, structure, password)
    certificates = [*([loaded.cert] if loaded.cert is not None else []), *loaded.additional_certs]
    bags = [] if structure is None else list(_certificate_bags(structure, password or ""))
    seen = {bag.certificate for bag in bags}
    unseen = [one for one in certificates if _der(one.certificate) not in seen]
    keys = tuple(_entry(bag, certificates, bags, unseen) for bag in (structure.bags if structure else ()))
    if not keys and loaded.key is not None:
        keys = (_only_entry(loaded, certificates),)
    aliases = {entry.alias for entry in keys}
    trusted = {
        number if bag.alias is None else bag.alias: bag.certificate  # an alias has one entry, the last one
        for number, bag in enumerate(bags)
        if bag.is_trusted and bag.alias not in aliases
    }
    if not keys and not trusted:
        return KeyStore(trusted=tuple(_der(one.certificate) for one in certificates))
    return KeyStore(
        keys=keys,
        trusted=tuple(trusted.values()),
        undecided=tuple(
            name for one in unseen if (name := _name(one)) and "=" not in name and name not in aliases
        ),  # keytool names the certificates of a chain after their subjects
    )


def _certificate_bags(structure: _Structure, password: str) -> Iterator[CertificateBag]:
    """Yield the certificates whose attributes can be read."""
    opened = (decrypted(part, password) for part in structure.encrypted)
    for contents in (*structure.contents, *opened):
        try:
            yield from () if contents is None else read_certificates(contents)
        except (DerError, ValueError, IndexError):
            continue  # the library reads more


def _load(content: bytes, structure: _Structure | None, password: str | None) -> PKCS12KeyAndCertificates:
    if password is None:
        if structure is None or structure.encrypted:
            raise PasswordRequiredError
        return _load_part(structure.rest, None)
    if structure is None:
        return _load_part(content, password)
    if structure.mac is not None:
        verify_mac(structure.mac, structure.authenticated, password)
    try:
        return _load_part(content, password)
    except StoreError:
        if not structure.bags or not structure.encrypted:
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
    bags: list[KeyBag] = []
    rest: list[bytes] = []
    contents: list[Element] = []
    encrypted: list[Element] = []
    safes = _octets(authenticated)
    for safe in parse(safes).children:
        kind, explicit = safe.children
        if kind.content != _DATA:
            encrypted.extend(explicit.children)
            rest.append(safe.raw)
            continue
        contents.append(parse(_octets(safe)))
        others = b""
        for bag in contents[-1].children:
            if is_key(bag):
                bags.append(read_key(bag, len(bags) + 1))
            else:
                others += bag.raw
        rest.append(_safe(others))
    return _Structure(
        bags=tuple(bags),
        rest=encode(SEQUENCE, version.raw + _safe(b"".join(rest))),
        contents=tuple(contents),
        encrypted=tuple(encrypted),
        mac=mac[0] if mac else None,
        authenticated=safes,
    )


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


def _entry(
    bag: KeyBag, certificates: list[PKCS12Certificate], bags: list[CertificateBag], unseen: list[PKCS12Certificate]
) -> KeyEntry:
    own = None
    if bag.is_encrypted:  # Java ignores the others
        best = max(bags, key=lambda one: one.fit(bag), default=None)
        own = next((_der(one.certificate) for one in unseen if _name(one) == bag.alias), None)
        if best is not None and best.fit(bag):
            own = best.certificate
    return KeyEntry(alias=bag.alias, certificate=own, decrypt=once(partial(_decrypt, bag, certificates)))


def _decrypt(bag: KeyBag, certificates: list[PKCS12Certificate], password: str) -> Identity:
    plain = bag.key
    if bag.is_encrypted and not password:  # the library takes an empty password for none
        if (found := decrypted_key(bag.key, password)) is None:
            raise WrongKeyPasswordError
        plain = found
    try:
        key = load_der_private_key(plain, password.encode() if bag.is_encrypted and password else None)
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
