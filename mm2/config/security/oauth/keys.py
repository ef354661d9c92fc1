"""Properties of clients with sasl.mechanism = OAUTHBEARER (KIP-255, KIP-768, KIP-1139, KIP-1258).

The defaults are Java's. It has none for timeouts, and waits without end; here they are finite.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

from mm2.config.grammar.java_types import (
    Boolean,
    ClassName,
    Double,
    Int,
    Long,
    OptionalInt,
    OptionalString,
    Short,
    String,
    at_least,
    between,
    one_of,
    require,
)
from mm2.config.keys.class_keys import LOGIN_HANDLER
from mm2.config.keys.declaration import KeyModel, flow_key, idle_key

_key = partial(flow_key, local=True)
_idle = partial(idle_key, local=True)

OAUTH = "org.apache.kafka.common.security.oauthbearer"

DEFAULT_RETRIEVER = f"{OAUTH}.DefaultJwtRetriever"
CLIENT_CREDENTIALS = f"{OAUTH}.ClientCredentialsJwtRetriever"
JWT_BEARER = f"{OAUTH}.JwtBearerJwtRetriever"
FILE_RETRIEVER = f"{OAUTH}.FileJwtRetriever"

_URL = (
    "URL of the token endpoint, `https:` or `http:`, or `file:` and the path of a file that contains a token, which is "
    "read again for each token."
)
_FILE = "The file is read again when it changes."
_UNLESS_FILE = "Not used with `sasl.oauthbearer.assertion.file`."

DEFAULT_TIMEOUT_MS = 10_000
"""Of connecting, and of waiting for an answer: an endpoint that is up takes less than a second."""

_POSITIVE = require(lambda number: number is None or number >= 1, "must be at least 1")


class OAuthKeys(KeyModel):
    """How a client obtains tokens, and when it renews them."""

    login_callback_handler_class: ClassName = _key(
        LOGIN_HANDLER.name,
        "",
        "`org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler` obtains tokens as the keys "
        "below say. `module:Class` is [a class of yours](../how-to/extending.md#oauth-tokens). If not set: the client "
        "issues tokens without signature itself (KIP-255), for tests only.",
    )
    token_endpoint_url: OptionalString = _key("sasl.oauthbearer.token.endpoint.url", None, _URL)
    client_id: OptionalString = _key(
        "sasl.oauthbearer.client.credentials.client.id",
        None,
        "Client ID. Default: option `clientId` of the login module.",
    )
    client_secret: OptionalString = _key(
        "sasl.oauthbearer.client.credentials.client.secret",
        None,
        "Client secret. Default: option `clientSecret` of the login module (secret).",
    )
    scope: OptionalString = _key(
        "sasl.oauthbearer.scope", None, "Requested scope. Default: option `scope` of the login module."
    )
    header_urlencode: Boolean = _key(
        "sasl.oauthbearer.header.urlencode",
        False,
        "URL-encode client ID and secret in the Authorization header, as RFC 6749 requires.",
    )
    jwt_retriever_class: Annotated[
        ClassName, one_of(DEFAULT_RETRIEVER, CLIENT_CREDENTIALS, JWT_BEARER, FILE_RETRIEVER)
    ] = _key(
        "sasl.oauthbearer.jwt.retriever.class",
        DEFAULT_RETRIEVER,
        "Java's class that retrieves tokens: `ClientCredentialsJwtRetriever`, `JwtBearerJwtRetriever`, "
        "`FileJwtRetriever`, or the default, which uses a file for a `file:` URL and client credentials for others.",
    )
    jwt_validator_class: Annotated[
        ClassName,
        one_of(
            f"{OAUTH}.DefaultJwtValidator",
            f"{OAUTH}.ClientJwtValidator",
            fix="remove the line: the signatures of tokens are validated by brokers",
        ),
    ] = _idle(
        "sasl.oauthbearer.jwt.validator.class",
        f"{OAUTH}.DefaultJwtValidator",
        "Java's class that validates tokens. No effect: tokens are read as by `ClientJwtValidator`.",
    )
    sub_claim_name: String = _key(
        "sasl.oauthbearer.sub.claim.name", "sub", "Claim of tokens with the name of the principal."
    )
    scope_claim_name: String = _idle(
        "sasl.oauthbearer.scope.claim.name", "scope", "Claim of tokens with their scopes. No effect: brokers read it."
    )
    assertion_file: OptionalString = _key(
        "sasl.oauthbearer.assertion.file",
        None,
        "File with an assertion, a JWT that proves the identity. It is read again for each token.",
    )
    assertion_algorithm: Annotated[String, one_of("RS256", "ES256", ignore_case=True)] = _key(
        "sasl.oauthbearer.assertion.algorithm", "RS256", f"Signature of assertions. {_UNLESS_FILE}"
    )
    assertion_private_key_file: OptionalString = _key(
        "sasl.oauthbearer.assertion.private.key.file",
        None,
        f"PEM file with the private key that signs assertions. {_FILE} {_UNLESS_FILE}",
    )
    assertion_private_key_passphrase: OptionalString = _key(
        "sasl.oauthbearer.assertion.private.key.passphrase", None, "Password of the private key (secret)."
    )
    assertion_template_file: OptionalString = _key(
        "sasl.oauthbearer.assertion.template.file",
        None,
        f"JSON file with objects `header` and `payload` for assertions. {_FILE} {_UNLESS_FILE}",
    )
    assertion_claim_aud: OptionalString = _key(
        "sasl.oauthbearer.assertion.claim.aud", None, "Claim `aud` of assertions."
    )
    assertion_claim_iss: OptionalString = _key(
        "sasl.oauthbearer.assertion.claim.iss",
        None,
        "Claim `iss` of assertions. If set, client credentials are an assertion instead of a secret.",
    )
    assertion_claim_sub: OptionalString = _key(
        "sasl.oauthbearer.assertion.claim.sub", None, "Claim `sub` of assertions."
    )
    assertion_claim_exp_seconds: Annotated[Int, between(0, 86_400)] = _key(
        "sasl.oauthbearer.assertion.claim.exp.seconds", 300, "Lifetime of assertions."
    )
    assertion_claim_nbf_seconds: Annotated[Int, between(0, 3_600)] = _key(
        "sasl.oauthbearer.assertion.claim.nbf.seconds", 60, "Seconds before now from which assertions are valid."
    )
    assertion_claim_jti_include: Boolean = _key(
        "sasl.oauthbearer.assertion.claim.jti.include", False, "Add a unique ID, claim `jti`, to assertions."
    )
    connect_timeout_ms: Annotated[OptionalInt, _POSITIVE] = _key(
        "sasl.login.connect.timeout.ms",
        None,
        f"Maximum time to connect to the token endpoint. If not set: {DEFAULT_TIMEOUT_MS}; in Java without limit.",
    )
    read_timeout_ms: Annotated[OptionalInt, _POSITIVE] = _key(
        "sasl.login.read.timeout.ms",
        None,
        f"Maximum time to wait for data of the endpoint. If not set: {DEFAULT_TIMEOUT_MS}; in Java without limit.",
    )
    retry_backoff_ms: Annotated[Long, at_least(1)] = _key(
        "sasl.login.retry.backoff.ms", 100, "Initial backoff before a token is requested again."
    )
    retry_backoff_max_ms: Annotated[Long, at_least(1)] = _key(
        "sasl.login.retry.backoff.max.ms",
        10_000,
        "Maximum backoff before a token is requested again; applied at once if the endpoint rejects the client.",
    )
    refresh_window_factor: Annotated[Double, between(0.5, 1.0)] = _key(
        "sasl.login.refresh.window.factor", 0.8, "Share of its lifetime after which a token is renewed."
    )
    refresh_window_jitter: Annotated[Double, between(0.0, 0.25)] = _key(
        "sasl.login.refresh.window.jitter", 0.05, "Maximum share of the lifetime that is added at random."
    )
    refresh_min_period_seconds: Annotated[Short, between(0, 900)] = _key(
        "sasl.login.refresh.min.period.seconds",
        60,
        "Minimum time between renewals, unless the lifetime is shorter than this and the buffer together.",
    )
    refresh_buffer_seconds: Annotated[Short, between(0, 3_600)] = _key(
        "sasl.login.refresh.buffer.seconds",
        300,
        "Time before the expiry at which a token is renewed at the latest, with the same exception.",
    )


BROKER_KEYS = (
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.url",
)
"""Used by brokers, which verify tokens; clients accept them without effect."""
