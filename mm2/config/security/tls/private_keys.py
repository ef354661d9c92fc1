"""Private keys that sign JWTs."""

from __future__ import annotations

import binascii
from base64 import b64decode

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
    load_pem_private_key,
)

from mm2.config.security.tls.formats.pem import normalized_pem

_PEM = "-----BEGIN "


class KeyProblem(Exception):
    """The text is not a key for the algorithm; with ``fix``. ``is_password``: a password is missing or wrong."""

    def __init__(self, rule: str, fix: str = "", *, is_password: bool = False) -> None:
        super().__init__(rule)
        self.fix = fix
        self.is_password = is_password


def read_private_key(text: str, password: str | None, algorithm: str) -> str:
    """Return the private key in ``text`` as PEM (PKCS 8), not encrypted.

    PEM, and like in Java the Base64 of PKCS 8 without the lines around it. ``algorithm``: RS256 or ES256, for which the
    key must be suitable. Raises KeyProblem.
    """
    secret = None if password is None else password.encode()
    try:
        pem = normalized_pem(text).encode()
        key = load_pem_private_key(pem, secret) if _PEM in text else load_der_private_key(_der(text), secret)
    except TypeError as error:  # a password that is missing, or not needed
        if secret is None:
            raise KeyProblem("contains an encrypted private key, and no password is set", is_password=True) from error
        raise KeyProblem(
            "contains a private key that is not encrypted, but a password is set",
            "remove sasl.oauthbearer.assertion.private.key.passphrase",
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        if secret is not None and "ENCRYPTED" in text:
            raise KeyProblem("contains a private key that its password does not decrypt", is_password=True) from error
        raise KeyProblem("contains no private key in PEM", _fix(algorithm)) from error
    if algorithm == "RS256" and not isinstance(key, RSAPrivateKey):
        raise KeyProblem("does not contain an RSA key, which RS256 requires", _fix(algorithm))
    if algorithm == "ES256" and not (isinstance(key, EllipticCurvePrivateKey) and isinstance(key.curve, SECP256R1)):
        raise KeyProblem("does not contain an EC key on curve P-256, which ES256 requires", _fix(algorithm))
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _der(text: str) -> bytes:
    try:
        return b64decode("".join(text.split()), validate=True)
    except binascii.Error as error:
        raise ValueError("not Base64") from error


def _fix(algorithm: str) -> str:
    kind = "RSA -pkeyopt rsa_keygen_bits:2048" if algorithm == "RS256" else "EC -pkeyopt ec_paramgen_curve:P-256"
    return f"create a key, and register its public key with the identity provider:\n  openssl genpkey -algorithm {kind}"
