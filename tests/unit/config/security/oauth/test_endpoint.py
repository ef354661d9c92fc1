"""OAUTHBEARER: the token endpoint, its grants, and the files that they need."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from mm2.config.reload.sources import oauth_files
from mm2.config.security.tls.default_trust import default_trust
from mm2.core.settings.oauth import (
    AssertionFile,
    ClientAssertionGrant,
    JwtBearerGrant,
    SecretGrant,
    SignedAssertion,
    TokenEndpoint,
    TokenFile,
)
from mm2.core.settings.tls import TlsSettings
from tests.unit.config.security.oauth.lines import (
    EC,
    OAUTH,
    OTHER_CURVE,
    RSA,
    URL,
    endpoint,
    file,
    jwt,
    login,
    pem,
    problem,
    read,
    template,
)

PREFIX = "A.sasl.oauthbearer."
ID, SECRET = (f"{PREFIX}client.credentials.client.{name}" for name in ("id", "secret"))
JWT_BEARER = f"{OAUTH}.JwtBearerJwtRetriever"


def credentials(**more: str) -> dict[str, str]:
    return {"client_credentials_client_id": "mm2", "client_credentials_client_secret": "sesame", **more}


def test_properties_take_precedence_over_options(tmp_path: Path) -> None:
    options = 'clientId="old" clientSecret="old" scope="old"'
    new = read(tmp_path, options, **credentials(token_endpoint_url=URL, scope="new", header_urlencode="true"))
    assert endpoint(new) == TokenEndpoint(
        url=URL,
        grant=SecretGrant(client_id="mm2", client_secret="sesame", urlencode=True),
        scope="new",
        tls=TlsSettings(ca_pem=default_trust()),
    )
    old = endpoint(read(tmp_path, options, token_endpoint_url=URL))
    assert old.grant == SecretGrant(client_id="old", client_secret="old")
    assert old.scope == "old"


def test_tls_options_of_the_login_module(tmp_path: Path) -> None:
    ca = file(tmp_path, trustme.CA().cert_pem.bytes().decode())
    options = f'ssl.truststore.type="PEM" ssl.truststore.location="{ca}" ssl.endpoint.identification.algorithm="https"'
    tls = endpoint(read(tmp_path, options, **credentials(token_endpoint_url=URL))).tls
    assert tls is not None
    assert tls.ca_pem == Path(ca).read_text()
    options = 'ssl.truststore.type="PEM" ssl.truststore.location="/no/such/file"'
    key, rule, _ = problem(read(tmp_path, options, **credentials(token_endpoint_url=URL)))
    assert key == "A.sasl.jaas.config, option ssl.truststore.location"
    assert rule.startswith("cannot be read")


@pytest.mark.parametrize(
    ("keys", "rule", "fix"),
    [
        ({}, f"requires {ID} and {SECRET}, which are not set", f"{ID} = ID\n  {SECRET} = SECRET"),
        ({"client_credentials_client_id": "c"}, f"requires {SECRET}, which is not set", f"{SECRET} = SECRET"),
        ({"client_credentials_client_secret": "s"}, f"requires {ID}, which is not set", f"{ID} = ID"),
    ],
)
def test_missing_credentials(tmp_path: Path, keys: dict[str, str], rule: str, fix: str) -> None:
    key, found, lines = problem(read(tmp_path, token_endpoint_url=URL, **keys))
    assert (key, found) == (f"{PREFIX}token.endpoint.url", rule)
    assert lines.endswith(fix)


def test_missing_url(tmp_path: Path) -> None:
    key, rule, fix = problem(read(tmp_path, **credentials()))
    assert (key, rule) == ("A.sasl.mechanism", f"requires {PREFIX}token.endpoint.url, which is not set")
    assert fix.startswith(f"add {PREFIX}token.endpoint.url = ")


@pytest.mark.parametrize(
    "url", ["login.example.com", "ftp://x/y", "https://", "https://x:port/", "https://[x/", "file:"]
)
def test_invalid_urls(tmp_path: Path, url: str) -> None:
    _, rule, _ = problem(read(tmp_path, **credentials(token_endpoint_url=url)))
    assert rule == "must be an https:, http: or file: URL"


@pytest.mark.parametrize(
    "url", ["https://mm2:sesame@login.example.com/token", "http://mm2@localhost/", "https://:se/sa@me@x"]
)
def test_urls_with_a_password(tmp_path: Path, url: str) -> None:
    result = read(tmp_path, **credentials(token_endpoint_url=url))
    (found,) = result.problems
    assert found.value == "[hidden]"
    if "/sa" not in url:
        assert found.rule == "must not contain a user or a password"
        assert found.fix == f"remove what is before the @, and set {ID} and {SECRET} instead"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_http_on_this_host(tmp_path: Path, host: str) -> None:
    result = read(tmp_path, **credentials(token_endpoint_url=f"http://{host}:8080/token"))
    assert not result.problems
    assert endpoint(result).tls is None


def test_http_to_another_host(tmp_path: Path) -> None:
    result = read(tmp_path, **credentials(token_endpoint_url="http://login.example.com/token"))
    assert problem(result)[1] == "the client's secret and tokens are sent without encryption"
    assert result.problems[0].is_warning


def test_a_token_file(tmp_path: Path) -> None:
    path = file(tmp_path, f"{jwt()}\n")
    for retriever in ({}, {"jwt_retriever_class": f"{OAUTH}.FileJwtRetriever"}):
        assert login(read(tmp_path, token_endpoint_url=f"file:{path}", **retriever)).source == TokenFile(file=path)
        assert login(read(tmp_path, token_endpoint_url=f"file://{path}", **retriever)).source == TokenFile(file=path)


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"opaque", "the file contains no token: not a JWT"),
        (jwt(sub="").encode(), "the file contains no token: the JWT has no claim sub"),
        (b"\xff", "is not a text file"),
        (None, "cannot be read (No such file or directory)"),
    ],
)
def test_unusable_token_files(tmp_path: Path, content: bytes | None, rule: str) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    key, found, _ = problem(read(tmp_path, token_endpoint_url=f"file:{path}"))
    assert key == f"{PREFIX}token.endpoint.url"
    assert found.startswith(rule)


@pytest.mark.parametrize(
    ("url", "retriever", "wanted"),
    [
        (URL, "FileJwtRetriever", "a file: URL"),
        ("file:/x", "ClientCredentialsJwtRetriever", "an http: or https: URL"),
        ("file:/x", "JwtBearerJwtRetriever", "an http: or https: URL"),
    ],
)
def test_urls_and_retrievers(tmp_path: Path, url: str, retriever: str, wanted: str) -> None:
    result = read(tmp_path, **credentials(token_endpoint_url=url, jwt_retriever_class=f"{OAUTH}.{retriever}"))
    assert problem(result)[1].startswith(f"must be {wanted} with {PREFIX}jwt.retriever.class = {OAUTH}.{retriever}")


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("jwt_retriever_class", "com.example.Retriever", "must be org.apache.kafka"),
        ("jwt_validator_class", f"{OAUTH}.BrokerJwtValidator", "must be org.apache.kafka"),
        ("assertion_algorithm", "HS256", "must be RS256 or ES256"),
    ],
)
def test_unknown_words(tmp_path: Path, key: str, value: str, rule: str) -> None:
    result = read(tmp_path, **credentials(token_endpoint_url=URL, **{key: value}))
    assert problem(result)[1].startswith(rule)


@pytest.mark.parametrize(("key", "algorithm"), [(RSA, "rs256"), (EC, "ES256")])
@pytest.mark.parametrize("password", [None, "key sesame"])
def test_a_signed_assertion(tmp_path: Path, key: object, algorithm: str, password: str | None) -> None:
    assert isinstance(key, type(RSA) | type(EC))
    lines = {
        "token_endpoint_url": URL,
        "jwt_retriever_class": JWT_BEARER,
        "assertion_algorithm": algorithm,
        "assertion_private_key_file": file(tmp_path, pem(key, password), "key"),
        "assertion_template_file": file(tmp_path, template(payload={"sub": "mm2"}), "template"),
        "assertion_claim_iss": "mm2",
        "assertion_claim_aud": "idp",
        "assertion_claim_exp_seconds": "30",
        "assertion_claim_nbf_seconds": "3",
        "assertion_claim_jti_include": "true",
        **({} if password is None else {"assertion_private_key_passphrase": password}),
    }
    found = endpoint(read(tmp_path, 'scope="not of this grant"', **lines))
    assert isinstance(found.grant, JwtBearerGrant)
    assertion = found.grant.assertion
    assert isinstance(assertion, SignedAssertion)
    assert load_pem_private_key(assertion.private_key.encode(), None)
    assert assertion == SignedAssertion(
        algorithm="RS256" if key is RSA else "ES256",
        private_key=assertion.private_key,
        claims=(("aud", "idp"), ("iss", "mm2")),
        template=template(payload={"sub": "mm2"}),
        exp_seconds=30,
        nbf_seconds=3,
        jti=True,
    )
    assert found.scope is None


def test_a_client_assertion(tmp_path: Path) -> None:
    """As in Java, claim iss is what selects it."""
    lines = {
        "token_endpoint_url": URL,
        "assertion_private_key_file": file(tmp_path, pem(RSA)),
        "assertion_claim_iss": "mm2",
    }
    grant = endpoint(read(tmp_path, **lines)).grant
    assert isinstance(grant, ClientAssertionGrant)
    assert grant.client_id is None
    assert endpoint(read(tmp_path, **lines, client_credentials_client_id="c")).grant == ClientAssertionGrant(
        client_id="c", assertion=grant.assertion
    )


def test_a_key_without_the_lines_of_pem(tmp_path: Path) -> None:
    """Java accepts it."""
    bare = "".join(line for line in pem(RSA).splitlines() if not line.startswith("-----"))
    lines = {"token_endpoint_url": URL, "jwt_retriever_class": JWT_BEARER}
    grant = endpoint(read(tmp_path, **lines, assertion_private_key_file=file(tmp_path, bare))).grant
    assert isinstance(grant, JwtBearerGrant)
    assert isinstance(grant.assertion, SignedAssertion)
    assert grant.assertion.private_key == pem(RSA)


def test_an_assertion_file_takes_precedence(tmp_path: Path) -> None:
    path = file(tmp_path, f"{jwt()}\n")
    lines = credentials(token_endpoint_url=URL, assertion_file=path, assertion_claim_iss="x")
    result = read(tmp_path, **lines)
    assert endpoint(result).grant == ClientAssertionGrant(client_id="mm2", assertion=AssertionFile(file=path))
    (warning,) = result.problems
    assert (warning.key, warning.rule) == (SECRET, f"has no effect because {PREFIX}assertion.file is set")
    del lines["assertion_file"], lines["client_credentials_client_secret"]
    path = file(tmp_path, jwt())
    bearer = read(tmp_path, **lines, jwt_retriever_class=JWT_BEARER, assertion_file=path)
    assert endpoint(bearer).grant == JwtBearerGrant(assertion=AssertionFile(file=path))


@pytest.mark.parametrize(
    ("content", "rule", "fix"),
    [
        (None, "cannot be read (No such file or directory)", "give the path of a PEM file"),
        ("no key", "contains no private key in PEM", "create a key"),
        (
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
            "contains no private key in PEM",
            "create a key",
        ),
        (pem(EC), "does not contain an RSA key, which RS256 requires", "create a key"),
        (pem(RSA, "p"), "contains an encrypted private key, and no password is set", "replace PASSWORD"),
    ],
)
def test_unusable_keys(tmp_path: Path, content: str | None, rule: str, fix: str) -> None:
    path = str(tmp_path / "none") if content is None else file(tmp_path, content)
    lines = {"token_endpoint_url": URL, "jwt_retriever_class": JWT_BEARER, "assertion_private_key_file": path}
    key, found, how = problem(read(tmp_path, **lines))
    assert (key, found) == (f"{PREFIX}assertion.private.key.file", rule)
    assert how.startswith(fix)


@pytest.mark.parametrize(
    ("content", "rule", "fix"),
    [
        (pem(RSA, "p"), "contains a private key that its password does not decrypt", "and correct:"),
        (pem(RSA), "contains a private key that is not encrypted, but a password is set", "remove sasl.oauthbearer"),
    ],
)
def test_wrong_passwords_of_keys(tmp_path: Path, content: str, rule: str, fix: str) -> None:
    lines = {
        "token_endpoint_url": URL,
        "jwt_retriever_class": JWT_BEARER,
        "assertion_private_key_file": file(tmp_path, content),
        "assertion_private_key_passphrase": "other sesame",
    }
    _, found, how = problem(read(tmp_path, **lines))
    assert found == rule
    assert fix in how
    assert "other sesame" not in how


@pytest.mark.parametrize("key", [RSA, OTHER_CURVE])
def test_keys_that_es256_cannot_use(tmp_path: Path, key: object) -> None:
    assert isinstance(key, type(RSA) | type(EC))
    path = file(tmp_path, pem(key))
    lines = {"token_endpoint_url": URL, "jwt_retriever_class": JWT_BEARER, "assertion_private_key_file": path}
    _, rule, _ = problem(read(tmp_path, **lines, assertion_algorithm="ES256"))
    assert rule == "does not contain an EC key on curve P-256, which ES256 requires"


@pytest.mark.parametrize("more", [{}, {"jwt_retriever_class": JWT_BEARER}])
def test_a_missing_key(tmp_path: Path, more: dict[str, str]) -> None:
    key, rule, _ = problem(read(tmp_path, token_endpoint_url=URL, assertion_claim_iss="mm2", **more))
    assert (key, rule) == ("A.sasl.mechanism", f"requires {PREFIX}assertion.private.key.file, which is not set")


@pytest.mark.parametrize(
    ("name", "content", "rule"),
    [
        ("template", None, "cannot be read"),
        ("template", "{", "is not JSON"),
        ("", None, "cannot be read"),
        ("", "no JWT", "the file contains no assertion"),
    ],
)
def test_unusable_templates_and_assertions(tmp_path: Path, name: str, content: str | None, rule: str) -> None:
    path = str(tmp_path / "none") if content is None else file(tmp_path, content)
    lines = {
        "token_endpoint_url": URL,
        "assertion_claim_iss": "mm2",
        "assertion_private_key_file": file(tmp_path, pem(RSA), "key"),
        "_".join(filter(None, ("assertion", name, "file"))): path,
    }
    key, found, _ = problem(read(tmp_path, **lines))
    assert key == ".".join(filter(None, (f"{PREFIX}assertion", name, "file")))
    assert found.startswith(rule)


def test_a_path_that_no_file_can_have(tmp_path: Path) -> None:
    assert os.sep == "/"
    lines = {"token_endpoint_url": URL, "assertion_file": "a\\u0000b"}
    assert problem(read(tmp_path, **lines))[1] == "is not a text file"


def test_files_that_are_watched() -> None:
    def named(key: str, text: str) -> list[str]:
        return [str(path) for path in oauth_files(f"A.sasl.{key}", text)]

    assert named("oauthbearer.token.endpoint.url", "file:///run/token") == ["/run/token"]
    assert named("oauthbearer.token.endpoint.url", URL) == []
    assert named("oauthbearer.token.endpoint.url", "http://[") == []
    assert named("oauthbearer.assertion.file", " /a ") == ["/a"]
    assert named("oauthbearer.assertion.private.key.file", "/b") == ["/b"]
    assert named("oauthbearer.assertion.template.file", " ") == []
    module = f"{OAUTH}.OAuthBearerLoginModule required"
    assert named("jaas.config", f'{module} ssl.truststore.location="/t" ssl.keystore.location="";') == ["/t"]
    assert named("jaas.config", "broken") == []
    assert named("mechanism", "x") == []
