"""Signatures of the requests between nodes: KIP-507, for the requests of KIP-710.

    X-Connect-Authorization                     base64(MAC(session key, body))     body: raw bytes, b"" if none
    X-Connect-Request-Signature-Algorithm       the MAC's name in Java: HmacSHA256

The algorithm of a signature can differ from the one the key was created with: a MAC accepts any secret. Algorithm names
are those of Java, in any case.
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from mm2.core.coordination.session_keys import SessionKey

SIGNATURE_HEADER = "X-Connect-Authorization"
ALGORITHM_HEADER = "X-Connect-Request-Signature-Algorithm"

_DIGESTS: Mapping[str, str] = {
    "HmacMD5": "md5",
    "HmacSHA1": "sha1",
    "HmacSHA224": "sha224",
    "HmacSHA256": "sha256",
    "HmacSHA384": "sha384",
    "HmacSHA512": "sha512",
    "HmacSHA3-224": "sha3_224",
    "HmacSHA3-256": "sha3_256",
    "HmacSHA3-384": "sha3_384",
    "HmacSHA3-512": "sha3_512",
}
"""Java's MACs and the names of their digests in hashlib. HmacSHA512/224 and HmacSHA512/256 are missing: only some
builds of OpenSSL have them, and all nodes of a flow must support the algorithm that one of them signs with."""

MAC_ALGORITHMS = tuple(_DIGESTS)
"""Algorithms that can sign requests."""

_BY_LOWER_CASE = {name.lower(): digest for name, digest in _DIGESTS.items()}
_BASE64 = re.compile("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?")


class Fault(Enum):
    """Why a signature is rejected."""

    MISSING = auto()
    """One of the two headers is missing."""
    MALFORMED = auto()
    """The algorithm is unknown, or the signature is not base64."""
    NOT_ACCEPTED = auto()
    """inter.worker.verification.algorithms does not list the algorithm."""
    NO_KEY = auto()
    """This node has not read a session key yet."""
    WRONG = auto()
    """It was computed with another key, or for another body."""


class BadSignatureError(Exception):
    """The signature of a request is invalid; the message is sent to the caller."""

    def __init__(self, fault: Fault, text: str) -> None:
        super().__init__(text)
        self.fault = fault


def is_mac(algorithm: str) -> bool:
    """Return whether requests can be signed with ``algorithm``."""
    return algorithm.lower() in _BY_LOWER_CASE


def sign(secret: bytes, body: bytes, algorithm: str) -> dict[str, str]:
    """Return the two headers for a request with ``body``. Raises ValueError for an unsupported algorithm."""
    mac = base64.b64encode(_mac(secret, body, algorithm)).decode("ascii")
    return {SIGNATURE_HEADER: mac, ALGORITHM_HEADER: algorithm}


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature that a request carries, with the secret that it must be made with."""

    given: bytes = field(repr=False)
    secret: bytes = field(repr=False)
    algorithm: str

    def verify(self, body: bytes) -> None:
        """Raise BadSignatureError unless it is that of ``body``. The comparison takes constant time."""
        if not hmac.compare_digest(_mac(self.secret, body, self.algorithm), self.given):
            raise BadSignatureError(Fault.WRONG, "Internal request contained invalid signature")


def check_headers(
    *, signature: str | None, algorithm: str | None, key: SessionKey | None, accepted: Collection[str]
) -> Signature:
    """Check the two headers of a request (None: absent), before its body is read. Raises BadSignatureError.

    ``key`` is the flow's session key. ``accepted`` are names of algorithms, compared exactly. Checks are made in Java's
    order.
    """
    if signature is None or algorithm is None:
        raise BadSignatureError(Fault.MISSING, "Internal request missing required signature")
    if not is_mac(algorithm):
        raise BadSignatureError(Fault.MALFORMED, f"{ALGORITHM_HEADER}: this node does not support {algorithm!r}")
    given = _decoded(signature)
    if algorithm not in accepted:
        raise BadSignatureError(
            Fault.NOT_ACCEPTED,
            f"This node does not accept signatures with {algorithm}, only with {', '.join(accepted)}: set "
            "inter.worker.verification.algorithms to the same value on all nodes",
        )
    if key is None:
        raise BadSignatureError(Fault.NO_KEY, "This node has not read the session key from the config topic yet")
    return Signature(given, key.secret, algorithm)


def _mac(secret: bytes, body: bytes, algorithm: str) -> bytes:
    digest = _BY_LOWER_CASE.get(algorithm.lower())
    if digest is None:
        raise ValueError(f"{algorithm!r} is not a signature algorithm; supported are {', '.join(MAC_ALGORITHMS)}")
    return hmac.digest(secret, body, digest)


def _decoded(signature: str) -> bytes:
    """Decode as java.util.Base64 does: the padding can be omitted as a whole; any other error is rejected."""
    if not _BASE64.fullmatch(signature):
        raise BadSignatureError(Fault.MALFORMED, f"{SIGNATURE_HEADER} is not base64")
    bare = signature.rstrip("=")
    return base64.b64decode(bare + "=" * (-len(bare) % 4))
