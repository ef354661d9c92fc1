"""sasl.oauthbearer.token.endpoint.url, and the grant with which a client obtains tokens there."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from mm2.config.grammar.problems import to_copy
from mm2.config.grammar.values import Value
from mm2.config.keys import declaration
from mm2.config.security.oauth.assertion import FILE as ASSERTION_FILE
from mm2.config.security.oauth.assertion import ISS, read_assertion
from mm2.config.security.oauth.keys import CLIENT_CREDENTIALS, DEFAULT_TIMEOUT_MS, FILE_RETRIEVER, JWT_BEARER
from mm2.config.security.oauth.properties import OAuthProperties
from mm2.config.security.security_keys import SecurityKeys
from mm2.config.security.tls.settings import read_tls
from mm2.core.settings.oauth import (
    ClientAssertionGrant,
    JwtBearerGrant,
    SecretGrant,
    TokenEndpoint,
    TokenFile,
)
from mm2.core.settings.tls import TlsSettings

URL = "sasl.oauthbearer.token.endpoint.url"

_RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
_ID, _SECRET = (f"sasl.oauthbearer.client.credentials.client.{name}" for name in ("id", "secret"))


def token_file(url: str) -> Path | None:
    """Return the file of a ``file:`` URL; None for other URLs. Like Java, escapes in the path are not decoded."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return None
    return Path(parts.path) if parts.scheme == "file" and parts.path else None


def read_source(oauth: OAuthProperties) -> TokenEndpoint | TokenFile | None:
    """Return where Java's OAuthBearerLoginCallbackHandler would get tokens; None after an error."""
    parts = _url(oauth)
    if parts is None:
        return None
    retriever = oauth.keys.jwt_retriever_class
    if (parts.scheme == "file") is not (retriever == FILE_RETRIEVER) and (
        retriever == FILE_RETRIEVER or retriever in (CLIENT_CREDENTIALS, JWT_BEARER)
    ):
        wanted = "a file: URL" if retriever == FILE_RETRIEVER else "an http: or https: URL"
        oauth.refuse(URL, f"must be {wanted} with {oauth.key(_RETRIEVER)} = {retriever}", "correct one of the two")
        return None
    if parts.scheme == "file":
        return _file(oauth, Path(parts.path))
    grant = _grant(oauth)
    tls = _tls(oauth) if parts.scheme == "https" else None
    if grant is None:
        return None
    _warn_unencrypted(oauth, parts)
    scope = oauth.keys.scope or (None if retriever == JWT_BEARER else oauth.option("scope"))
    return TokenEndpoint(
        url=parts.geturl(),
        grant=grant,
        scope=scope,
        tls=tls,
        connect_timeout_ms=oauth.keys.connect_timeout_ms or DEFAULT_TIMEOUT_MS,
        read_timeout_ms=oauth.keys.read_timeout_ms or DEFAULT_TIMEOUT_MS,
    )


def _url(oauth: OAuthProperties) -> SplitResult | None:
    text = oauth.keys.token_endpoint_url
    if not text:
        oauth.refuse_mechanism(URL, "add {key} = the token endpoint of your identity provider, https://…")
        return None
    try:
        parts = urlsplit(text)
        valid = bool(parts.path if parts.scheme == "file" else parts.hostname and (parts.port or 1))
    except ValueError:
        parts, valid = urlsplit(""), False
    if parts.scheme not in ("http", "https", "file") or not valid:
        oauth.refuse(
            URL, "must be an https:, http: or file: URL", "write it as in https://login.example.com/oauth2/token"
        )
        return None
    if parts.scheme != "file" and "@" in parts.netloc:  # they would replace the header with the client's credentials
        oauth.refuse(
            URL,
            "must not contain a user or a password",
            f"remove what is before the @, and set {oauth.key(_ID)} and {oauth.key(_SECRET)} instead",
        )
        return None
    return parts


def _file(oauth: OAuthProperties, path: Path) -> TokenFile | None:
    jwt = oauth.read_jwt_file(URL, path, "a file with a token", sub_claim=oauth.keys.sub_claim_name or "sub")
    if jwt is None:
        return None
    file = oauth.sasl.reread_file(path, jwt.encode())
    return TokenFile(jwt=jwt) if file is None else TokenFile(file=file)


def _grant(oauth: OAuthProperties) -> SecretGrant | ClientAssertionGrant | JwtBearerGrant | None:
    keys = oauth.keys
    if keys.jwt_retriever_class == JWT_BEARER:
        assertion = read_assertion(oauth)
        return None if assertion is None else JwtBearerGrant(assertion=assertion)
    client_id = keys.client_id or oauth.option("clientId")
    if keys.assertion_file or keys.assertion_claim_iss:
        _warn_unused_secret(oauth)
        assertion = read_assertion(oauth)
        return None if assertion is None else ClientAssertionGrant(client_id=client_id, assertion=assertion)
    secret = keys.client_secret or oauth.option("clientSecret")
    missing = {name: word for name, given, word in ((_ID, client_id, "ID"), (_SECRET, secret, "SECRET")) if not given}
    if missing:
        names = " and ".join(map(oauth.key, missing))
        oauth.refuse(
            URL,
            f"requires {names}, which {'are' if missing.keys() > {_ID} else 'is'} not set",
            f"replace {' and '.join(missing.values())}, and add:"
            + to_copy(*(f"{oauth.key(name)} = {word}" for name, word in missing.items())),
        )
        return None
    assert client_id
    assert secret
    return SecretGrant(client_id=client_id, client_secret=secret, urlencode=keys.header_urlencode)


def _warn_unused_secret(oauth: OAuthProperties) -> None:
    reason = oauth.key(ASSERTION_FILE if oauth.keys.assertion_file else ISS)
    if oauth.value(_SECRET) is not None:
        oauth.warn(_SECRET, f"has no effect because {reason} is set", "remove one of the two")


def _warn_unencrypted(oauth: OAuthProperties, parts: SplitResult) -> None:
    if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        oauth.warn(URL, "the client's secret and tokens are sent without encryption", "use an https: URL")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _tls(oauth: OAuthProperties) -> TlsSettings:
    """Return the TLS of connections to the endpoint: options ssl.* of the login module (Java's JaasOptionsUtils)."""
    line = oauth.login_line.entry
    assert line is not None
    options = {
        name: Value(text, replace(line, key=f"{line.key}, option {name}", value=text))
        for name, text in oauth.options.items()
        if name.startswith("ssl.")
    }
    return read_tls(options, declaration.read(SecurityKeys, options, oauth.sasl.problems), oauth.sasl.problems)
