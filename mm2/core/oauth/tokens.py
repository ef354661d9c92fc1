"""Bearer tokens: what a client reads of a JWT, and tokens without signature."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from mm2.core.settings.oauth import NamedTexts
from mm2.core.wire.json_bytes import decode_json

_SECTION = re.compile(r"[A-Za-z0-9_-]+={0,2}")


class TokenInvalid(ValueError):
    """The text is not a token that a client can use. The message contains nothing of the token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BearerToken:
    """A token to send. Times are seconds since the epoch; ``issued_at`` None: not known. ``extensions``: those that
    belong to this token, in addition to the login's."""

    value: str = field(repr=False)
    expires_at: float
    issued_at: float | None = None
    principal: str = ""
    extensions: NamedTexts = ()


def jwt_value(text: str) -> str:
    """Return the JWT in ``text``, of which only the three sections are checked. Raises TokenInvalid."""
    value = text.strip()
    sections = value.split(".")
    if len(sections) != 3 or not all(map(_SECTION.fullmatch, sections)):
        raise TokenInvalid("not a JWT: three Base64 sections, separated by dots, are expected")
    return value


def read_jwt(text: str, *, sub_claim: str = "sub") -> BearerToken:
    """Return the token in ``text``, without verifying its signature, which brokers do.

    As Java's ClientJwtValidator, it requires three sections, the claim exp and the claim with the principal's name.
    Raises TokenInvalid.
    """
    value = jwt_value(text)
    claims = _claims(value.split(".")[1])
    expires_at, issued_at, subject = claims.get("exp"), claims.get("iat"), claims.get(sub_claim)
    if not _is_time(expires_at):
        raise TokenInvalid("the JWT has no claim exp with a number")
    if issued_at is not None and not _is_time(issued_at):
        raise TokenInvalid("the claim iat of the JWT is not a number")
    if not isinstance(subject, str) or not subject.strip():
        raise TokenInvalid(f"the JWT has no claim {sub_claim}: check sasl.oauthbearer.sub.claim.name")
    assert isinstance(expires_at, int | float)
    assert issued_at is None or isinstance(issued_at, int | float)
    return BearerToken(value=value, expires_at=expires_at, issued_at=issued_at, principal=subject.strip())


def token_of_response(body: str) -> str:
    """Return the token in the JSON response of a token endpoint: access_token, or id_token, as in Java. Raises
    TokenInvalid."""
    try:
        fields = decode_json(body.encode(), "response", surrogates=True)
    except ValueError:
        raise TokenInvalid("the response is not JSON") from None  # the reason quotes it
    if isinstance(fields, dict):
        for name in ("access_token", "id_token"):
            if isinstance(text := fields.get(name), str) and text.strip():
                return text.strip()
    raise TokenInvalid("the response contains no access_token")


def unsecured_token(claims: str, *, now: float, lifetime: int) -> str:
    """Return a JWT with ``claims`` (JSON), valid for ``lifetime`` seconds, with algorithm none
    (OAuthBearerUnsecuredLoginCallbackHandler, KIP-255)."""
    payload = {"exp": now + lifetime, "iat": now, **json.loads(claims)}
    return f"{encode({'alg': 'none'})}.{encode(payload)}."


def encode(section: Mapping[str, object]) -> str:
    """Return a section of a JWT: JSON in URL-safe Base64 without padding."""
    return encode_bytes(json.dumps(section, separators=(",", ":")).encode())


def encode_bytes(content: bytes) -> str:
    """Return URL-safe Base64 without padding."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _claims(section: str) -> dict[str, object]:
    try:
        payload = base64.urlsafe_b64decode(section.rstrip("=") + "=" * (-len(section.rstrip("=")) % 4))
        claims = decode_json(payload, "payload", surrogates=True)
    except ValueError:  # of base64, of the character set, or of JSON
        raise TokenInvalid("the payload of the JWT is not JSON") from None  # the reason quotes it
    if not isinstance(claims, dict):
        raise TokenInvalid("the payload of the JWT is not a JSON object")
    return claims


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
