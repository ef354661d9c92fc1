"""OAuth settings of a client (sasl.mechanism = OAUTHBEARER): where tokens come from, and when they are renewed.

Durations are in the unit of Java's property. A ``file`` with a token or an assertion is read again for each token
(`mm2.kafka.sasl.credential_files`); only of what is no regular file, such as a pipe, is the content stored. Other files
are stored as contents, because a lane can run on another machine; new settings follow their change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from mm2.core.settings.tls import TlsSettings

NamedTexts = tuple[tuple[str, str], ...]
"""Names and texts in a form that can be hashed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertionFile:
    """sasl.oauthbearer.assertion.file: a JWT that was signed elsewhere. Either ``jwt`` or ``file`` is set."""

    kind: Literal["file"] = "file"
    jwt: str | None = field(default=None, repr=False)
    file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedAssertion:
    """A JWT that is signed for each request (KIP-1139, KIP-1258).

    ``private_key`` is PEM (PKCS 8), not encrypted. ``claims``: aud, iss and sub, as far as they are set. ``template``:
    the JSON of sasl.oauthbearer.assertion.template.file, with the objects ``header`` and ``payload``.
    """

    kind: Literal["signed"] = "signed"
    algorithm: Literal["RS256", "ES256"] = "RS256"
    private_key: str = field(repr=False)
    claims: NamedTexts = ()
    template: str | None = None
    exp_seconds: int = 300
    nbf_seconds: int = 60
    jti: bool = False


Assertion = AssertionFile | SignedAssertion


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretGrant:
    """Grant client_credentials, with HTTP Basic authentication (KIP-768). ``urlencode``: ID and secret are URL-encoded
    before, as RFC 6749 requires and Java does not by default."""

    kind: Literal["secret"] = "secret"
    client_id: str
    client_secret: str = field(repr=False)
    urlencode: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAssertionGrant:
    """Grant client_credentials, with an assertion instead of a secret (RFC 7523 section 2.2; KIP-1258)."""

    kind: Literal["client-assertion"] = "client-assertion"
    client_id: str | None
    assertion: Assertion


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtBearerGrant:
    """Grant urn:ietf:params:oauth:grant-type:jwt-bearer (RFC 7523 section 2.1; KIP-1139)."""

    kind: Literal["jwt-bearer"] = "jwt-bearer"
    assertion: Assertion


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEndpoint:
    """A token endpoint, http or https. ``tls``: None for http. The backoff is that between failed requests."""

    kind: Literal["endpoint"] = "endpoint"
    url: str
    grant: SecretGrant | ClientAssertionGrant | JwtBearerGrant
    scope: str | None = None
    tls: TlsSettings | None = None
    connect_timeout_ms: int = 10_000
    read_timeout_ms: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFile:
    """A token in a file (sasl.oauthbearer.token.endpoint.url = file:…). Either ``jwt`` or ``file`` is set."""

    kind: Literal["file"] = "file"
    jwt: str | None = field(default=None, repr=False)
    file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsecuredToken:
    """A token that the client issues itself, without signature, for tests (KIP-255). ``claims`` is the JSON of all
    claims but iat and exp."""

    kind: Literal["unsecured"] = "unsecured"
    claims: str
    lifetime_seconds: int = 3_600


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPlugin:
    """A user's class (sasl.login.callback.handler.class = module:Class). ``options`` are those of the login module,
    ``properties`` the sasl.* properties of the client."""

    kind: Literal["plugin"] = "plugin"
    import_string: str
    options: NamedTexts = field(default=(), repr=False)
    properties: NamedTexts = field(default=(), repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)


TokenSource = TokenEndpoint | TokenFile | UnsecuredToken | TokenPlugin


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshSettings:
    """sasl.login.refresh.* and sasl.login.retry.backoff.*. ``window_factor`` and ``window_jitter`` are shares of a
    token's lifetime."""

    window_factor: float = 0.8
    window_jitter: float = 0.05
    min_period_seconds: int = 60
    buffer_seconds: int = 300
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthLogin:
    """How a client obtains tokens. ``extensions`` are SASL extensions (RFC 7628, KIP-342). ``sub_claim`` is the claim
    with the name of the principal."""

    mechanism: Literal["OAUTHBEARER"] = "OAUTHBEARER"
    source: TokenSource
    extensions: NamedTexts = ()
    sub_claim: str = "sub"
    refresh: RefreshSettings = RefreshSettings()

    @property
    def user(self) -> str:
        grant = self.source.grant if isinstance(self.source, TokenEndpoint) else None
        return "" if grant is None or isinstance(grant, JwtBearerGrant) else grant.client_id or ""

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(text for text in _secrets(self.source) if text)

    @property
    def files(self) -> tuple[str, ...]:
        """The files that are read again."""
        source = _assertion(self.source) if isinstance(self.source, TokenEndpoint) else self.source
        file = source.file if isinstance(source, TokenFile | AssertionFile) else None
        return () if file is None else (file,)

    @property
    def file_contents(self) -> dict[str, tuple[str | None, ...]]:
        """The contents of files that are not read again, by the property that names them."""
        found: dict[str, tuple[str | None, ...]] = {}
        match self.source:
            case TokenFile(jwt=jwt):
                found["sasl.oauthbearer.token.endpoint.url"] = (jwt,)
            case TokenEndpoint(tls=tls):
                if tls is not None:
                    found["sasl.jaas.config"] = (tls.ca_pem, tls.certificate_pem, tls.key_pem)
                match _assertion(self.source):
                    case AssertionFile(jwt=jwt):
                        found["sasl.oauthbearer.assertion.file"] = (jwt,)
                    case SignedAssertion(private_key=key, template=template):
                        found["sasl.oauthbearer.assertion.private.key.file"] = (key,)
                        found["sasl.oauthbearer.assertion.template.file"] = (template,)
        return found


def _assertion(endpoint: TokenEndpoint) -> Assertion | None:
    return None if isinstance(endpoint.grant, SecretGrant) else endpoint.grant.assertion


def _secrets(source: TokenSource) -> tuple[str | None, ...]:
    if isinstance(source, TokenFile):
        return (source.jwt,)
    if isinstance(source, TokenPlugin):
        return source.secrets
    if isinstance(source, UnsecuredToken):
        return ()
    tls = () if source.tls is None else source.tls.secrets
    if isinstance(source.grant, SecretGrant):
        return (source.grant.client_secret, *tls)
    assertion = source.grant.assertion
    return (assertion.jwt if isinstance(assertion, AssertionFile) else assertion.private_key, *tls)
