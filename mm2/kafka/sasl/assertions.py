"""Signatures of assertions: RS256 and ES256 (RFC 7515)."""

from __future__ import annotations

from collections.abc import Mapping

from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from mm2.core.oauth.tokens import encode, encode_bytes

_P256_BYTES = 32


def sign(header: Mapping[str, object], payload: Mapping[str, object], private_key: str) -> str:
    """Return the JWT of ``header`` and ``payload``. ``private_key`` is PEM: an RSA key signs with RS256, a key on curve
    P-256 with ES256, as the header must say."""
    content = f"{encode(header)}.{encode(payload)}"
    key = load_pem_private_key(private_key.encode(), None)
    if isinstance(key, RSAPrivateKey):
        signature = key.sign(content.encode(), PKCS1v15(), SHA256())
    else:
        assert isinstance(key, EllipticCurvePrivateKey), "checked when the file was read"
        numbers = decode_dss_signature(key.sign(content.encode(), ECDSA(SHA256())))
        signature = b"".join(number.to_bytes(_P256_BYTES) for number in numbers)  # RFC 7518 section 3.4, not DER
    return f"{content}.{encode_bytes(signature)}"
