"""Signatures of the requests between nodes: those of KIP-507 for the requests of KIP-710, and our own for our own.

    X-Connect-Authorization                     base64(MAC(session key, body))     body: raw bytes, b"" if none
    X-Connect-Request-Signature-Algorithm       the MAC's name in Java: HmacSHA256

Java's signature covers only the body: a request that is read can be repeated, and one for an empty body fits every
path. Our requests have these headers instead, which fit one request to one node, once:

    X-MM2-Authorization                         base64(MAC(key, content))
    X-MM2-Request                               id
    X-Connect-Request-Signature-Algorithm       as above
    content      "mm2" LF method LF URL of the receiving node LF path and query LF id LF SHA-256 of the body in hex
    id           milliseconds since 1970 "-" 32 hex digits
    key          the session key; for commands HMAC-SHA256(session key, mm2.rest.admin.token), so that reading the
                 config topic is not enough to send them

The algorithm of a signature can differ from the one the key was created with: a MAC accepts any secret. Algorithm names
are those of Java, in any case.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from mm2.core.coordination.session_keys import SessionKey

SIGNATURE_HEADER = "X-Connect-Authorization"
ALGORITHM_HEADER = "X-Connect-Request-Signature-Algorithm"
OWN_SIGNATURE_HEADER = "X-MM2-Authorization"
REQUEST_HEADER = "X-MM2-Request"

VALID_MS = 300_000
"""Maximum difference between the time of a request and the clock of the node that receives it: as in Kerberos."""

MOST_SEEN = 200_000
"""Maximum number of remembered requests, about 30 MB: more than 300 a second, while each flow causes one a second and
node."""

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
_REQUEST_ID = re.compile("(?P<sent_ms>[0-9]{1,15})-[0-9a-f]{32}")
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
    """It was computed with another key, or for another request."""
    STALE = auto()
    """The request is too old, or from the future: the clocks of the two nodes differ, or it was recorded."""
    REPEATED = auto()
    """The request was received before."""
    TOO_MANY = auto()
    """This node cannot remember more requests."""


class BadSignatureError(Exception):
    """The signature of a request is invalid; the message is sent to the caller."""

    def __init__(self, fault: Fault, text: str) -> None:
        super().__init__(text)
        self.fault = fault


def is_mac(algorithm: str) -> bool:
    """Return whether requests can be signed with ``algorithm``."""
    return algorithm.lower() in _BY_LOWER_CASE


def sign(secret: bytes, content: bytes, algorithm: str, *, header: str = SIGNATURE_HEADER) -> dict[str, str]:
    """Return ``header`` and the one of the algorithm for a request with ``content``, which is the body in Java.

    Raises ValueError for an unsupported algorithm.
    """
    mac = base64.b64encode(_mac(secret, content, algorithm)).decode("ascii")
    return {header: mac, ALGORITHM_HEADER: algorithm}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLine:
    """What our signature covers beside the body. ``node_url``: base URL of the receiving node, as it advertises it;
    ``path``: as sent, with the query; ``id`` as in X-MM2-Request."""

    method: str
    node_url: str
    path: str
    id: str

    def content(self, body: bytes) -> bytes:
        """Return what is signed."""
        digest = hashlib.sha256(body).hexdigest()
        return "\n".join(("mm2", self.method, self.node_url.rstrip("/"), self.path, self.id, digest)).encode()

    def sign(self, secret: bytes, body: bytes, algorithm: str) -> dict[str, str]:
        """Return the three headers. Raises ValueError for an unsupported algorithm."""
        signed = sign(secret, self.content(body), algorithm, header=OWN_SIGNATURE_HEADER)
        return {**signed, REQUEST_HEADER: self.id}


def request_id(now_ms: int, nonce: bytes) -> str:
    """Return the ID of a request that is sent now. ``nonce``: 16 random bytes."""
    return f"{now_ms}-{nonce.hex()}"


def command_secret(secret: bytes, token: str) -> bytes:
    """Return the key of commands. ``secret``: of the session key; ``token``: mm2.rest.admin.token."""
    return hmac.digest(secret, token.encode(), "sha256")


class SeenRequests:
    """The requests of the last minutes, to accept none of them twice. Used on one event loop.

    ``now_ms``: this node's clock, which can be set while the node runs; ``monotonic_ms``: a clock that cannot. Requests
    that were sent before this object existed are rejected: a node that has restarted does not know which of them it
    received.
    """

    def __init__(self, now_ms: Callable[[], int], monotonic_ms: Callable[[], int], *, most: int = MOST_SEEN) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = monotonic_ms
        self._most = most
        self._began = monotonic_ms()
        self._seen: dict[str, int] = {}  # when they were received, the oldest first

    def check(self, id: str | None) -> str:
        """Return the ID of a request whose signature is not verified yet. Raises BadSignatureError if it is invalid or
        not of the last minutes."""
        if id is None:
            raise BadSignatureError(
                Fault.MISSING,
                f"Internal request missing required header {REQUEST_HEADER}: do all nodes run the same release of mm2?",
            )
        match = _REQUEST_ID.fullmatch(id)
        if match is None:
            raise BadSignatureError(Fault.MALFORMED, f"{REQUEST_HEADER} is not a time and 32 hex digits")
        sent_ms, now_ms = int(match["sent_ms"]), self._now_ms()
        if abs(now_ms - sent_ms) > VALID_MS:
            raise BadSignatureError(
                Fault.STALE,
                f"Internal request was sent {abs(now_ms - sent_ms) / 1000:.0f} s "
                f"{'ago' if sent_ms < now_ms else 'ahead'} by this node's clock, which is more than "
                f"{VALID_MS / 1000:.0f} s: synchronize the clocks of all nodes",
            )
        if sent_ms < now_ms - (self._monotonic_ms() - self._began):
            raise BadSignatureError(
                Fault.STALE,
                "Internal request was sent before this node started: send another one. If that is rejected, too, "
                "synchronize the clocks of all nodes",
            )
        return id

    def add(self, id: str) -> None:
        """Remember a request with a valid signature. Raises BadSignatureError if it was received before."""
        now_ms = self._now_ms()
        while self._seen and self._seen[oldest := next(iter(self._seen))] < now_ms - 2 * VALID_MS:
            del self._seen[oldest]  # it was sent at most VALID_MS after it was received
        if id in self._seen:
            raise BadSignatureError(Fault.REPEATED, "Internal request was received before")
        if len(self._seen) >= self._most:
            raise BadSignatureError(Fault.TOO_MANY, f"more than {self._most} requests in {2 * VALID_MS / 1000:.0f} s")
        self._seen[id] = now_ms


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature that a request carries, with the secret that it must be made with."""

    given: bytes = field(repr=False)
    secret: bytes = field(repr=False)
    algorithm: str

    def verify(self, content: bytes) -> None:
        """Raise BadSignatureError unless it is that of ``content``. The comparison takes constant time."""
        if not hmac.compare_digest(_mac(self.secret, content, self.algorithm), self.given):
            raise BadSignatureError(Fault.WRONG, "Internal request contained invalid signature")


def check_headers(
    *, signature: str | None, algorithm: str | None, key: SessionKey | None, accepted: Collection[str]
) -> Signature:
    """Check the two headers of a signature (None: absent), before a body is read. Raises BadSignatureError.

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


def _mac(secret: bytes, content: bytes, algorithm: str) -> bytes:
    digest = _BY_LOWER_CASE.get(algorithm.lower())
    if digest is None:
        raise ValueError(f"{algorithm!r} is not a signature algorithm; supported are {', '.join(MAC_ALGORITHMS)}")
    return hmac.digest(secret, content, digest)


def _decoded(signature: str) -> bytes:
    """Decode as java.util.Base64 does: the padding can be omitted as a whole; any other error is rejected."""
    if not _BASE64.fullmatch(signature):
        raise BadSignatureError(Fault.MALFORMED, "the signature of an internal request is not base64")
    bare = signature.rstrip("=")
    return base64.b64decode(bare + "=" * (-len(bare) % 4))
