"""Where tokens come from: files, users' classes, the client itself, and requests to an endpoint."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from mm2.core.masking import hide
from mm2.core.oauth.tokens import encode
from mm2.core.plugins import OAuthBearerToken
from mm2.core.settings.oauth import (
    AssertionFile,
    ClientAssertionGrant,
    JwtBearerGrant,
    OAuthLogin,
    SecretGrant,
    SignedAssertion,
    TokenEndpoint,
    TokenFile,
    TokenPlugin,
    UnsecuredToken,
)
from mm2.core.settings.tls import TlsSettings
from mm2.kafka.sasl.login import LoginFailed
from mm2.kafka.sasl.oauthbearer import source_of
from mm2.kafka.sasl.token_endpoint import EndpointTokens, request_of
from tests.lab.identity_provider import IdentityProvider, pem_of

JWT = f"{encode({})}.{encode({'sub': 'mm2', 'exp': 4_000_000_000})}.c2ln"
RSA = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
EC = ec.generate_private_key(ec.SECP256R1())


class Handler:
    """A user's class; ``result`` is what its method returns or raises."""

    result: object = OAuthBearerToken(
        value="a.b", expires_at_ms=1_500, principal_name="arn", extensions={"b": "2", "a": "1"}
    )
    configured: tuple[Mapping[str, str], Mapping[str, str]] | None = None

    def configure(self, properties: Mapping[str, str], options: Mapping[str, str]) -> None:
        type(self).configured = properties, options

    def token(self) -> object:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


class WithoutConfigure:
    def token(self) -> object:
        return None


def plugin(name: str = "Handler") -> TokenPlugin:
    return TokenPlugin(
        import_string=f"{__name__}:{name}", options=(("region", "eu"),), properties=(("sasl.mechanism", "x"),)
    )


def test_a_file() -> None:
    token = source_of(OAuthLogin(source=TokenFile(jwt=JWT))).token()
    assert (token.value, token.expires_at, token.principal) == (JWT, 4_000_000_000, "mm2")
    with pytest.raises(LoginFailed, match="the file contains no token: the JWT has no claim client"):
        source_of(OAuthLogin(source=TokenFile(jwt=JWT), sub_claim="client")).token()


def test_a_file_that_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "token"
    source = source_of(OAuthLogin(source=TokenFile(file=str(path))))
    with pytest.raises(LoginFailed, match=rf"^{path} cannot be read \(No such file or directory\)$") as raised:
        source.token()
    assert raised.value.key == "sasl.oauthbearer.token.endpoint.url"
    path.write_bytes(b"\xff")
    with pytest.raises(LoginFailed, match=rf"^{path} is not a text file$"):
        source.token()
    path.write_text(f"{JWT}\n")
    assert source.token().value == JWT
    path.write_text("x")
    with pytest.raises(LoginFailed, match="the file contains no token: not a JWT"):
        source.token()


def test_the_client_itself() -> None:
    token = source_of(OAuthLogin(source=UnsecuredToken(claims='{"sub": "mm2"}', lifetime_seconds=60))).token()
    assert token.value.endswith(".")
    assert 58 < token.expires_at - time.time() <= 60


def test_a_users_class() -> None:
    tokens = source_of(OAuthLogin(source=plugin()))
    token = tokens.token()
    assert (token.value, token.expires_at, token.principal) == ("a.b", 1.5, "arn")
    assert token.extensions == (("a", "1"), ("b", "2"))
    assert Handler.configured == ({"sasl.mechanism": "x"}, {"region": "eu"})


def test_a_users_class_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Handler, "result", ValueError("no credentials"))
    with pytest.raises(LoginFailed, match=r"Handler raised ValueError: no credentials \(test_token_sources.py:\d+\)"):
        source_of(OAuthLogin(source=plugin())).token()
    with pytest.raises(LoginFailed, match=r"token\(\) returned NoneType") as raised:
        source_of(OAuthLogin(source=plugin("WithoutConfigure"))).token()
    assert raised.value.key == "sasl.login.callback.handler.class"


def test_a_users_class_that_a_lane_cannot_import() -> None:
    with pytest.raises(LoginFailed, match="raised ModuleNotFoundError: No module named 'no_such_module'"):
        source_of(OAuthLogin(source=TokenPlugin(import_string="no_such_module:Handler"))).token()


def endpoint(grant: SecretGrant | ClientAssertionGrant | JwtBearerGrant, scope: str | None = None) -> TokenEndpoint:
    return TokenEndpoint(url="http://idp/token", grant=grant, scope=scope)


@pytest.mark.parametrize(("urlencode", "pair"), [(False, "a b:s/+%"), (True, "a+b:s%2F%2B%25")])
def test_a_secret(urlencode: bool, pair: str) -> None:
    grant = SecretGrant(client_id="a b", client_secret="s/+%", urlencode=urlencode)
    form, headers = request_of(endpoint(grant, "x y"), now=0)
    assert form == {"grant_type": "client_credentials", "scope": "x y"}
    assert headers == {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def test_assertions_of_files() -> None:
    form, headers = request_of(endpoint(JwtBearerGrant(assertion=AssertionFile(jwt="a.b.c")), "s"), now=0)
    grant = "urn:ietf:params:oauth:grant-type:jwt-bearer"
    assert (form, headers) == ({"grant_type": grant, "assertion": "a.b.c", "scope": "s"}, {})
    client = ClientAssertionGrant(client_id="c", assertion=AssertionFile(jwt="a.b.c"))
    assert request_of(endpoint(client), now=0)[0] == {
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_assertion": "a.b.c",
        "grant_type": "client_credentials",
        "client_id": "c",
    }
    anonymous = ClientAssertionGrant(client_id=None, assertion=AssertionFile(jwt="a.b.c"))
    assert "client_id" not in request_of(endpoint(anonymous), now=0)[0]


def test_assertions_of_files_that_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "assertion"
    settings = endpoint(JwtBearerGrant(assertion=AssertionFile(file=str(path))))
    path.write_text("d.e.f\n")
    assert request_of(settings, now=0)[0]["assertion"] == "d.e.f"
    path.write_text("")
    with pytest.raises(LoginFailed, match="the file contains no assertion: not a JWT") as raised:
        request_of(settings, now=0)
    assert raised.value.key == "sasl.oauthbearer.assertion.*"


def test_signatures() -> None:
    for algorithm, key in (("RS256", RSA), ("ES256", EC)):
        settings = SignedAssertion(
            algorithm="ES256" if algorithm == "ES256" else "RS256", private_key=pem_of(key), claims=(("iss", "mm2"),)
        )
        jwt = request_of(endpoint(JwtBearerGrant(assertion=settings)), now=1_000)[0]["assertion"]
        content, _, signature = jwt.rpartition(".")
        assert content.startswith(f"{encode({'alg': algorithm, 'typ': 'JWT'})}.")
        raw = base64.urlsafe_b64decode(signature + "==")
        if isinstance(key, rsa.RSAPrivateKey):
            key.public_key().verify(raw, content.encode(), PKCS1v15(), SHA256())
        else:
            both = encode_dss_signature(int.from_bytes(raw[:32]), int.from_bytes(raw[32:]))
            key.public_key().verify(both, content.encode(), ec.ECDSA(SHA256()))


def test_a_trust_store_without_certificates() -> None:
    settings = TokenEndpoint(
        url="https://127.0.0.1:1/", grant=SecretGrant(client_id="a", client_secret="b"), tls=TlsSettings(ca_pem="none")
    )
    with pytest.raises(LoginFailed, match=r"ssl\.truststore: contains no certificate") as raised:
        EndpointTokens(settings, "sub").token()
    assert raised.value.key == "sasl.jaas.config"


class QuotingProvider(IdentityProvider):
    """Quotes the client's secret in its error, beyond the characters that a message shows."""

    def answer(self, headers: Mapping[str, str], body: str) -> tuple[int, dict[str, object]]:  # headers, body: unused
        return 401, {"error": "invalid_client", "error_description": f"{'x' * 270} {SECRET}"}


SECRET = "open-sesame-of-the-client"


def test_an_error_of_an_endpoint_contains_no_secret() -> None:
    """Statuses show it to everybody who can connect to a node."""
    hide(SECRET)
    grant = SecretGrant(client_id="a", client_secret=SECRET)
    with QuotingProvider() as provider, pytest.raises(LoginFailed, match=r"401 invalid_client: x+ ") as raised:
        EndpointTokens(TokenEndpoint(url=provider.token_url, grant=grant), "sub").token()
    assert "sesame" not in str(raised.value)


def test_the_query_of_an_endpoint_is_not_shown() -> None:
    grant = SecretGrant(client_id="a", client_secret="b")
    settings = TokenEndpoint(url="http://127.0.0.1:1/token?code=open-sesame", grant=grant)
    with pytest.raises(LoginFailed, match=r"^token endpoint http://127\.0\.0\.1:1/token: ") as raised:
        EndpointTokens(settings, "sub").token()
    assert "sesame" not in str(raised.value)
