"""How nodes sign what they ask each other: KIP-507's signatures with KIP-710's requests (mm2-compat §6.4).

    X-Connect-Authorization                     base64(MAC(session key, body))     body: the raw bytes, none is b""
    X-Connect-Request-Signature-Algorithm       the MAC's name in Java: HmacSHA256

The algorithm of a signature need not be the one the key was made with: a MAC takes any secret. Names are those of
Java's cryptography, in any case.
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Collection, Mapping
from enum import Enum, auto

from mm2.core.session_keys import SessionKey

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
"""Java's MACs and what hashlib calls their digests. Not HmacSHA512/224 and HmacSHA512/256: only some builds of OpenSSL
have those, and all nodes of a flow must have what one of them signs with."""

MAC_ALGORITHMS = tuple(_DIGESTS)
"""What requests can be signed with."""

_BY_LOWER_CASE = {name.lower(): digest for name, digest in _DIGESTS.items()}
_BASE64 = re.compile("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?")


class Fault(Enum):
    """What is wrong with a signature."""

    MISSING = auto()
    """One of the two headers is not there."""
    MALFORMED = auto()
    """The algorithm is none, or the signature is not base64."""
    NOT_ACCEPTED = auto()
    """inter.worker.verification.algorithms does not list the algorithm."""
    NO_KEY = auto()
    """This node has not read a session key yet."""
    WRONG = auto()
    """It was made with another key, or for another body."""


class BadSignatureError(Exception):
    """A request is not what a node of the same flow would have sent; the text is for the one who sent it."""

    def __init__(self, fault: Fault, text: str) -> None:
        super().__init__(text)
        self.fault = fault


def is_mac(algorithm: str) -> bool:
    """Whether requests can be signed with ``algorithm``."""
    return algorithm.lower() in _BY_LOWER_CASE


def sign(secret: bytes, body: bytes, algorithm: str) -> dict[str, str]:
    """The two headers for a request with ``body``. Raises ValueError for an algorithm that is no MAC of ours."""
    mac = base64.b64encode(_mac(secret, body, algorithm)).decode("ascii")
    return {SIGNATURE_HEADER: mac, ALGORITHM_HEADER: algorithm}


def verify(
    *, signature: str | None, algorithm: str | None, body: bytes, key: SessionKey | None, accepted: Collection[str]
) -> None:
    """Check the two headers of a request (None: absent) against the flow's session key. ``accepted`` are names of
    algorithms, exactly as requests bring them. The faults are looked for in Java's order, and the comparison takes the
    same time wherever the signatures differ. Raises BadSignatureError."""
    if signature is None or algorithm is None:
        raise BadSignatureError(Fault.MISSING, "Internal request missing required signature")
    if not is_mac(algorithm):
        raise BadSignatureError(Fault.MALFORMED, f"{ALGORITHM_HEADER}: {algorithm!r} is no algorithm of this node")
    given = _decoded(signature)
    if algorithm not in accepted:
        raise BadSignatureError(
            Fault.NOT_ACCEPTED,
            f"This node does not accept signatures made by {algorithm}, only by {', '.join(accepted)}: let "
            "inter.worker.verification.algorithms be the same on all nodes",
        )
    if key is None:
        raise BadSignatureError(Fault.NO_KEY, "This node has not read the session key from the config topic yet")
    if not hmac.compare_digest(_mac(key.secret, body, algorithm), given):
        raise BadSignatureError(Fault.WRONG, "Internal request contained invalid signature")


def _mac(secret: bytes, body: bytes, algorithm: str) -> bytes:
    digest = _BY_LOWER_CASE.get(algorithm.lower())
    if digest is None:
        raise ValueError(f"{algorithm!r} cannot sign; known are {', '.join(MAC_ALGORITHMS)}")
    return hmac.digest(secret, body, digest)


def _decoded(signature: str) -> bytes:
    """As java.util.Base64: the padding may be left out as a whole, nothing else may be amiss."""
    if not _BASE64.fullmatch(signature):
        raise BadSignatureError(Fault.MALFORMED, f"{SIGNATURE_HEADER} is not base64")
    bare = signature.rstrip("=")
    return base64.b64decode(bare + "=" * (-len(bare) % 4))
