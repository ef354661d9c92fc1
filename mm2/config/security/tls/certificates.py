"""Checks of certificates and private keys in PEM, before a connection uses them."""

from __future__ import annotations

import ssl
import warnings
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from cryptography.utils import CryptographyDeprecationWarning

from mm2.config.security.tls.formats.pem import PEM_BLOCK
from mm2.config.security.tls.stores import REMEMBERED

_SHOWN = "%Y-%m-%d %H:%M UTC"


def to_pem(certificates: Iterable[bytes]) -> str:
    """Return certificates in DER as PEM."""
    return "".join(map(ssl.DER_cert_to_PEM_cert, certificates))


@lru_cache(maxsize=REMEMBERED)
def untrustworthy(ca_pem: str) -> str | None:
    """Return why OpenSSL cannot read the certificates of a trust store; None if it can."""
    blocks = (match[0] for match in PEM_BLOCK.finditer(ca_pem) if match["kind"].endswith("CERTIFICATE"))
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata="\n".join(blocks))
    except (ssl.SSLError, ValueError) as error:
        return str(getattr(error, "reason", None) or error)
    return None


def all_expired(ca_pem: str, now: datetime) -> str | None:
    """Return when the last certificate expired, if all of a trust store have. Many bundles contain some."""
    ends = [certificate.not_valid_after_utc for certificate in _certificates(ca_pem)]
    return max(ends).strftime(_SHOWN) if ends and max(ends) < now else None


def outside_validity(chain_pem: str, now: datetime) -> str | None:
    """Return whether the first certificate of a chain has expired or is not valid yet, with the date; None if not."""
    for certificate in _certificates(chain_pem)[:1]:
        subject = certificate.subject.rfc4514_string()
        if certificate.not_valid_after_utc < now:
            return f"its certificate ({subject}) expired on {certificate.not_valid_after_utc.strftime(_SHOWN)}"
        if certificate.not_valid_before_utc > now:
            return (
                f"its certificate ({subject}) is not valid before {certificate.not_valid_before_utc.strftime(_SHOWN)}"
            )
    return None


class WrongPasswordError(Exception):
    """A private key cannot be decrypted with its password."""


@lru_cache(maxsize=REMEMBERED)
def key_mismatch(chain_pem: str, key_pem: str, password: str | None) -> str | None:
    """Return why a private key cannot be used with the first certificate of a chain; None if it can.

    ``password`` None: the key is not encrypted. Raises WrongPasswordError.
    """
    try:
        key = load_pem_private_key(key_pem.encode(), None if password is None else password.encode())
    except UnsupportedAlgorithm:
        return None  # OpenSSL may support it
    except ValueError as error:
        if password is not None:
            raise WrongPasswordError from error
        return "its private key cannot be read"
    first = _certificates(chain_pem)[:1]
    if not first:
        return "its certificate cannot be read"
    if _public(first[0]) != key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo):
        return "its private key does not belong to its first certificate"
    return None


def _public(certificate: x509.Certificate) -> bytes:
    return certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


@lru_cache(maxsize=REMEMBERED)
def _certificates(pem: str) -> tuple[x509.Certificate, ...]:
    """Return the certificates in ``pem``, without those that the library cannot read."""
    found = []
    for match in PEM_BLOCK.finditer(pem):
        if match["kind"].endswith("CERTIFICATE"):
            with warnings.catch_warnings():  # about old roots, such as serial numbers of 0
                warnings.simplefilter("ignore", CryptographyDeprecationWarning)
                try:
                    found.append(x509.load_pem_x509_certificate(match[0].encode()))
                except ValueError:
                    continue
    return tuple(found)
