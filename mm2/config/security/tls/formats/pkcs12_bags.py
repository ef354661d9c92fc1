"""Bags of PKCS12 stores (RFC 7292): private keys, and certificates with the attributes by which Java uses them."""

from __future__ import annotations

from dataclasses import dataclass

from mm2.config.security.tls.formats.der import Element

_BAGS = bytes.fromhex("2a864886f70d010c0a01")  # 1.2.840.113549.1.12.10.1
_KEY, _SHROUDED_KEY, _CERTIFICATE = _BAGS + b"\x01", _BAGS + b"\x02", _BAGS + b"\x03"
_X509 = bytes.fromhex("2a864886f70d01091601")  # 1.2.840.113549.1.9.22.1
_FRIENDLY_NAME = bytes.fromhex("2a864886f70d010914")  # 1.2.840.113549.1.9.20
_KEY_ID = bytes.fromhex("2a864886f70d010915")  # 1.2.840.113549.1.9.21
_TRUSTED_KEY_USAGE = bytes.fromhex("6086480186f966adca7b0101")  # 2.16.840.1.113894.746875.1.1


@dataclass(frozen=True, slots=True)
class KeyBag:
    """A private key: its alias in lower case, and its PrivateKeyInfo or EncryptedPrivateKeyInfo (RFC 5208).

    ``key_id``: that of its certificate, too; None: it has none.
    """

    alias: str
    key_id: bytes | None
    key: bytes
    is_encrypted: bool


@dataclass(frozen=True, slots=True)
class CertificateBag:
    """A certificate in DER, with its alias in lower case if it has one. ``is_trusted``: whether it has the attribute
    with which Java marks trusted certificates, whatever its value."""

    alias: str | None
    key_id: bytes | None
    certificate: bytes
    is_trusted: bool

    def fit(self, key: KeyBag) -> int:
        """Return how well the certificate matches a private key; 0: not at all. Its ID counts more than its alias
        (sun.security.pkcs12.PKCS12KeyStore.findMatchedCertificate)."""
        if self.is_trusted:
            return 0
        has_id = key.key_id is not None and key.key_id == self.key_id
        return 2 * has_id + (key.alias == self.alias)


def is_key(bag: Element) -> bool:
    """Return whether a bag contains a private key. Raises DerError and IndexError."""
    return bag.children[0].content in (_KEY, _SHROUDED_KEY)


def read_key(bag: Element, number: int) -> KeyBag:
    """Return a private key. ``number``: its alias if it has none. Raises DerError, ValueError and IndexError."""
    kind, value, *_ = bag.children
    attributes = _attributes(bag)
    return KeyBag(
        alias=_alias(attributes) or str(number),
        key_id=_key_id(attributes),
        key=value.content,
        is_encrypted=kind.content == _SHROUDED_KEY,
    )


def read_certificates(contents: Element) -> list[CertificateBag]:
    """Return the certificates of a SafeContents. Raises DerError, ValueError and IndexError."""
    found = []
    for bag in contents.children:
        kind, value, *_ = bag.children
        if kind.content != _CERTIFICATE:
            continue
        (pair,) = value.children
        form, explicit = pair.children
        if form.content == _X509:
            attributes = _attributes(bag)
            found.append(
                CertificateBag(
                    alias=_alias(attributes),
                    key_id=_key_id(attributes),
                    certificate=explicit.children[0].content,
                    is_trusted=_TRUSTED_KEY_USAGE in attributes,
                )
            )
    return found


def _attributes(bag: Element) -> dict[bytes, Element]:
    """Return the first value of each attribute by its identifier."""
    found = {}
    for attribute in bag.children[2].children if bag.children[2:] else ():
        name, values = attribute.children
        found[name.content] = values.children[0]
    return found


def _alias(attributes: dict[bytes, Element]) -> str | None:
    name = attributes.get(_FRIENDLY_NAME)
    return None if name is None else name.content.decode("utf-16-be").lower()


def _key_id(attributes: dict[bytes, Element]) -> bytes | None:
    value = attributes.get(_KEY_ID)
    return None if value is None else value.content
