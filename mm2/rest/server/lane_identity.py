"""Client certificate of lanes on other machines, for a listener with ssl.client.auth = required.

Lanes do not get the node's own key: everyone who can read Spark's tasks could then pretend to be the node. The node
issues a certificate when it starts, and is the only one to accept it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NAME = "mm2 lane"

_CLOCKS_DIFFER = timedelta(days=1)  # the node verifies it with the clock that it was issued by, which can be set back
_VALID = timedelta(days=3650)  # longer than a node runs without a restart


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneIdentity:
    """A certificate, signed by itself, and its key in PEM."""

    certificate_pem: str
    key_pem: str = field(repr=False)


def issue_lane_identity() -> LaneIdentity:
    """Return a new client certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now - _CLOCKS_DIFFER, now + _VALID
    )
    certificate = (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(key, SHA256())
    )
    return LaneIdentity(
        certificate_pem=certificate.public_bytes(Encoding.PEM).decode(),
        key_pem=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
    )
