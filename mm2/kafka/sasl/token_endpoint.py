"""Tokens of a token endpoint (KIP-768, KIP-1139, KIP-1258; RFC 6749, RFC 7523), and signatures of its assertions."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar
from urllib.parse import quote_plus, urlsplit
from uuid import uuid4

import httpx
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from mm2.core.masking import masked
from mm2.core.oauth.assertion import assertion_sections
from mm2.core.oauth.tokens import (
    BearerToken,
    TokenInvalid,
    encode,
    encode_bytes,
    jwt_value,
    read_jwt,
    token_of_response,
)
from mm2.core.settings.oauth import (
    Assertion,
    AssertionFile,
    ClientAssertionGrant,
    JwtBearerGrant,
    SecretGrant,
    TokenEndpoint,
)
from mm2.core.wire.json_bytes import decode_json
from mm2.kafka.connection.security import ssl_context
from mm2.kafka.errors import SecuritySettingsInvalid
from mm2.kafka.sasl.login import LoginFailed
from mm2.kafka.sasl.token_source import URL, TokenRefused, text_of

_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_CLIENT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

_HEADERS = {"Accept": "application/json", "Cache-Control": "no-cache"}

_CREDENTIALS = "sasl.oauthbearer.client.credentials.*"
_ASSERTION = "sasl.oauthbearer.assertion.*"

_LONGEST_BODY = 1_000_000
"""Bytes of a response. Tokens have a few kilobytes; a broker's limit for them is 512 KiB."""

_LONGEST_WORDS = 300
"""Characters of an endpoint's error that a message contains."""

_REPEATABLE = frozenset({408, 425, 429})
"""Errors of the client (4xx) after which the same request can succeed."""


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


class EndpointTokens:
    """Requests tokens with the grant of the settings; a request is not repeated here."""

    key: ClassVar[str] = URL
    if_expired: ClassVar[str] = "are the clocks of this host and the identity provider synchronized?"

    def __init__(self, settings: TokenEndpoint, sub_claim: str) -> None:
        self._settings = settings
        self._sub_claim = sub_claim

    def token(self) -> BearerToken:
        body = self._post()
        try:
            return read_jwt(token_of_response(body), sub_claim=self._sub_claim)
        except TokenInvalid as error:
            raise LoginFailed(f"{self._name}: {error}", self.key) from error

    @property
    def _name(self) -> str:
        address = urlsplit(self._settings.url)
        return f"token endpoint {address.scheme}://{address.netloc}{address.path}"  # a query can contain a key

    @cached_property
    def _verify(self) -> object:
        try:
            return True if self._settings.tls is None else ssl_context(self._settings.tls)
        except SecuritySettingsInvalid as error:
            raise LoginFailed(f"{self._name}: {error}", "sasl.jaas.config") from error

    def _post(self) -> str:
        settings = self._settings
        read, connect = settings.read_timeout_ms / 1000, settings.connect_timeout_ms / 1000
        form, headers = request_of(settings, now=time.time())
        try:
            with (
                httpx.Client(
                    timeout=httpx.Timeout(read, connect=connect),
                    trust_env=True,  # as Java, whose proxies are set for the process (https.proxyHost)
                    verify=self._verify,  # type: ignore[arg-type] # bool or context
                ) as client,
                client.stream("POST", settings.url, data=form, headers={**_HEADERS, **headers}) as response,
            ):
                body = _read(response)
        except httpx.ConnectTimeout as error:
            raise LoginFailed(f"{self._name}: no connection within {connect:g} s", self.key) from error
        except httpx.TimeoutException as error:
            raise LoginFailed(f"{self._name}: no answer within {read:g} s", self.key) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise LoginFailed(f"{self._name}: {_reason(error)}", self.key) from error
        if response.status_code not in (httpx.codes.OK, httpx.codes.CREATED):
            raise self._refusal(response.status_code, body)
        return body

    def _refusal(self, status: int, body: str) -> LoginFailed:
        reason = f"{self._name}: {status} {_error_words(body)}".rstrip()
        if 400 <= status < 500 and status not in _REPEATABLE:
            secret = isinstance(self._settings.grant, SecretGrant)
            return TokenRefused(reason, (_CREDENTIALS if secret else _ASSERTION) if status != 404 else self.key)
        return LoginFailed(reason, self.key)


def request_of(settings: TokenEndpoint, *, now: float) -> tuple[dict[str, str], dict[str, str]]:
    """Return the form and the headers of a request. ``now``: seconds since the epoch. Secrets are in the headers, or in
    the form. Raises LoginFailed if the file of an assertion cannot be read."""
    scope = {"scope": settings.scope} if settings.scope else {}
    match settings.grant:
        case SecretGrant() as grant:
            return {"grant_type": "client_credentials", **scope}, {"Authorization": _basic(grant)}
        case ClientAssertionGrant(client_id=client_id, assertion=assertion):
            form = {
                "client_assertion_type": _CLIENT_ASSERTION,
                "client_assertion": _assertion(assertion, now),
                "grant_type": "client_credentials",
            }
            return {**form, **({"client_id": client_id} if client_id else {}), **scope}, {}
        case JwtBearerGrant(assertion=assertion):
            return {"grant_type": _JWT_BEARER, "assertion": _assertion(assertion, now), **scope}, {}


def _basic(grant: SecretGrant) -> str:
    pair = (grant.client_id, grant.client_secret)
    user, password = map(quote_plus, pair) if grant.urlencode else pair
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


def _assertion(assertion: Assertion, now: float) -> str:
    if isinstance(assertion, AssertionFile):
        try:
            return jwt_value(text_of(assertion.file, assertion.jwt, _ASSERTION))
        except TokenInvalid as error:
            raise LoginFailed(f"the file contains no assertion: {error}", _ASSERTION) from error
    from mm2.kafka.sasl.token_endpoint import sign  # noqa: PLC0415 other lanes do without cryptography

    header, payload = assertion_sections(assertion, now=now, unique_id=str(uuid4()))
    return sign(header, payload, assertion.private_key)


def _read(response: httpx.Response) -> str:
    body = b""
    for part in response.iter_bytes():
        body += part
        if len(body) > _LONGEST_BODY:
            raise httpx.DecodingError(f"the response is longer than {_LONGEST_BODY:,} bytes")
    return body.decode("utf-8", "replace")


def _error_words(body: str) -> str:
    """Return the endpoint's error (RFC 6749 section 5.2), or nothing: other bodies are pages for browsers."""
    try:
        fields = decode_json(body.encode(), "error of a token endpoint", surrogates=True)
    except ValueError:
        return ""
    if not isinstance(fields, dict):
        return ""
    words = [fields.get(name) for name in ("error", "error_description", "errorCode", "errorSummary")]
    text = masked(": ".join(str(word) for word in words if word))  # it can quote the request, and statuses show it
    return " ".join(text.split())[:_LONGEST_WORDS]


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
