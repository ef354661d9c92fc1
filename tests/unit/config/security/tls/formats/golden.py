"""Stores that openssl, keytool and Java wrote (tests/golden/stores/make.sh)."""

from __future__ import annotations

from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_der_private_key

from mm2.config.security.tls.formats.key_store import Identity

STORES = Path(__file__).parents[5] / "golden" / "stores"
STORE_PASSWORD, KEY_PASSWORD = "sesame", "open sesame"


def content(name: str) -> bytes:
    return (STORES / name).read_bytes()


def names(certificates: tuple[bytes, ...]) -> list[str]:
    """The subjects of certificates in DER."""
    return [x509.load_der_x509_certificate(one).subject.rfc4514_string() for one in certificates]


def fits(identity: Identity) -> bool:
    """Whether the key belongs to the first certificate."""
    key = load_der_private_key(identity.key, None)
    return x509.load_der_x509_certificate(identity.chain[0]).public_key() == key.public_key()
