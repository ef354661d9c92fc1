"""Lines with Java's own classes and algorithms, which files for Java have and which change nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.config.files import flow, loaded

KAFKA = "org.apache.kafka.common.security"
OAUTH = (
    "A.security.protocol = SASL_PLAINTEXT\nA.sasl.mechanism = OAUTHBEARER\n"
    f"A.sasl.login.callback.handler.class = {KAFKA}.oauthbearer.OAuthBearerLoginCallbackHandler\n"
    f"A.sasl.jaas.config = {KAFKA}.oauthbearer.OAuthBearerLoginModule required clientId=a clientSecret=b;\n"
    "A.sasl.oauthbearer.token.endpoint.url = http://127.0.0.1/\n"
)
PLAIN = (
    "A.security.protocol = SASL_PLAINTEXT\nA.sasl.mechanism = PLAIN\n"
    f"A.sasl.jaas.config = {KAFKA}.plain.PlainLoginModule required username=a password=b;\n"
)


@pytest.mark.parametrize(
    "line",
    [
        "ssl.secure.random.implementation = SHA1PRNG",
        f"ssl.engine.factory.class = {KAFKA}.ssl.DefaultSslEngineFactory",
        "ssl.provider = SunJSSE",
        "ssl.trustmanager.algorithm = X509",
        "ssl.trustmanager.algorithm = SunX509",
        "ssl.keymanager.algorithm = PKIX",
        "ssl.protocol = SSL",
        "ssl.protocol = TLSv1.1",
    ],
)
def test_tls(tmp_path: Path, line: str) -> None:
    result = loaded(tmp_path, f"A.security.protocol = SSL\nA.{line}\n")
    assert (result.settings is not None, result.problems) == (True, ())


@pytest.mark.parametrize(
    ("login", "line"),
    [
        (OAUTH, f"sasl.login.class = {KAFKA}.oauthbearer.internals.OAuthBearerRefreshingLogin"),
        (
            OAUTH,
            f"sasl.client.callback.handler.class = {KAFKA}.oauthbearer.internals.OAuthBearerSaslClientCallbackHandler",
        ),
        (PLAIN, f"sasl.login.class = {KAFKA}.authenticator.DefaultLogin"),
        (PLAIN, f"sasl.client.callback.handler.class = {KAFKA}.authenticator.SaslClientCallbackHandler"),
        (
            PLAIN,
            f"sasl.login.callback.handler.class = {KAFKA}.authenticator.AbstractLogin$DefaultLoginCallbackHandler",
        ),
    ],
)
def test_sasl(tmp_path: Path, login: str, line: str) -> None:
    result = loaded(tmp_path, f"{login}A.{line}\n")
    assert result.settings is not None, result.problems
    assert not any(problem.key == f"A.{line.partition(' ')[0]}" for problem in result.problems)


@pytest.mark.parametrize(
    "line",
    [
        "ssl.provider = BCJSSE",
        "ssl.engine.factory.class = com.example.Factory",
        "ssl.trustmanager.algorithm = TrustAll",
        "ssl.protocol = SSLv2",
        "ssl.enabled.protocols = TLSv1, TLSv1.1",
    ],
)
def test_what_could_weaken_a_connection_is_an_error(tmp_path: Path, line: str) -> None:
    (problem,) = loaded(tmp_path, f"A.security.protocol = SSL\nA.{line}\n").problems
    assert (problem.is_warning, problem.is_temporary) == (False, False)


def test_old_versions_of_tls_are_not_used(tmp_path: Path) -> None:
    lines = "A.security.protocol = SSL\nA.ssl.enabled.protocols = TLSv1.1, TLSv1.2\n"
    (problem,) = loaded(tmp_path, lines).problems
    assert problem.is_warning
    assert flow(tmp_path, lines).clients.source_consumer.tls.protocols == ("TLSv1.2",)
