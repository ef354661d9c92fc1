"""OAUTHBEARER: handlers, extensions, plug-ins, and tokens without signature."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mm2.core.plugins import OAuthBearerToken
from mm2.core.settings.oauth import RefreshSettings, TokenPlugin, UnsecuredToken
from tests.unit.config.files import loaded
from tests.unit.config.security.oauth.lines import OAUTH, URL, login, problem, read

SECRET = {
    "client_credentials_client_id": "mm2",
    "client_credentials_client_secret": "sesame",
    "token_endpoint_url": URL,
}
HANDLER = "A.sasl.login.callback.handler.class"


class Tokens:
    """A login callback handler."""

    def token(self) -> OAuthBearerToken:
        raise NotImplementedError


def test_both_names_of_javas_handler(tmp_path: Path) -> None:
    old = login(read(tmp_path, handler=f"{OAUTH}.secured.OAuthBearerLoginCallbackHandler", **SECRET))
    assert old == login(read(tmp_path, **SECRET))


def test_refresh_and_claim(tmp_path: Path) -> None:
    more = "".join(
        f"A.sasl.login.{name} = {value}\n"
        for name, value in {
            "refresh.window.factor": "0.5",
            "refresh.window.jitter": " .25d",
            "refresh.min.period.seconds": "1",
            "refresh.buffer.seconds": "2",
            "retry.backoff.ms": "3",
            "retry.backoff.max.ms": "4",
        }.items()
    )
    lines = (read(tmp_path, **SECRET, sub_claim_name="client"), (tmp_path / "mm2.properties").read_text())[1]
    found = login(loaded(tmp_path, lines.partition("A->B.enabled = true\n")[2] + more))
    assert found.refresh == RefreshSettings(
        window_factor=0.5,
        window_jitter=0.25,
        min_period_seconds=1,
        buffer_seconds=2,
        retry_backoff_ms=3,
        retry_backoff_max_ms=4,
    )
    assert found.sub_claim == "client"


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("refresh.window.factor = 0.4", "must be from 0.5 to 1.0"),
        ("refresh.window.factor = half", "must be a number"),
        ("refresh.buffer.seconds = 3601", "must be from 0 to 3600"),
        ("connect.timeout.ms = 0", "must be at least 1"),
        ("read.timeout.ms = soon", "must be a whole number"),
    ],
)
def test_invalid_numbers(tmp_path: Path, line: str, rule: str) -> None:
    read(tmp_path, **SECRET)
    path = tmp_path / "mm2.properties"
    text = path.read_text().partition("A->B.enabled = true\n")[2]
    (found,) = loaded(tmp_path, f"{text}A.sasl.login.{line}\n").problems
    assert found.rule == rule


def test_extensions(tmp_path: Path) -> None:
    found = login(read(tmp_path, 'extension_logicalCluster="lkc-1" extension_identityPoolId="pool-1"', **SECRET))
    assert found.extensions == (("identityPoolId", "pool-1"), ("logicalCluster", "lkc-1"))


def test_an_invalid_extension(tmp_path: Path) -> None:
    key, rule, fix = problem(read(tmp_path, 'extension_a1="x"', **SECRET))
    assert (key, fix) == ("A.sasl.jaas.config", "correct or remove the option")
    assert rule.startswith("option extension_a1: the name of an extension must consist of letters")


def test_without_a_handler(tmp_path: Path) -> None:
    key, rule, fix = problem(read(tmp_path, handler=None, **SECRET))
    assert (key, rule) == ("A.sasl.mechanism", f"requires {HANDLER}, which is not set")
    assert fix.startswith(f"add {HANDLER} = {OAUTH}.OAuthBearerLoginCallbackHandler, or a class in Python")


@pytest.mark.parametrize(
    ("handler", "fix"),
    [
        (f"{OAUTH}.OauthBearerLoginCallbackHandler", f"did you mean {OAUTH}.OAuthBearerLoginCallbackHandler?"),
        ("com.example.Handler", f"write {OAUTH}.OAuthBearerLoginCallbackHandler, or a class in Python as module:Class"),
    ],
)
def test_unknown_handlers(tmp_path: Path, handler: str, fix: str) -> None:
    key, rule, found = problem(read(tmp_path, handler=handler, **SECRET))
    assert (key, rule) == (HANDLER, "not a class of Kafka, and other Java classes cannot be loaded")
    assert found.startswith(fix)


def test_the_login_module_of_another_mechanism(tmp_path: Path) -> None:
    lines = "A.security.protocol = SASL_SSL\nA.sasl.mechanism = OAUTHBEARER\nA.sasl.jaas.config = "
    plain = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";\n'
    _, rule, fix = problem(loaded(tmp_path, lines + plain))
    assert rule == "must have the login module of sasl.mechanism = OAUTHBEARER"
    assert fix.endswith("OAuthBearerLoginModule required;")


def test_a_plugin(tmp_path: Path) -> None:
    found = login(
        read(tmp_path, 'region="eu" password="p4ss"', f"{__name__}:Tokens", client_credentials_client_secret="s")
    )
    source = found.source
    assert isinstance(source, TokenPlugin)
    assert source.import_string == f"{__name__}:Tokens"
    assert source.options == (("password", "p4ss"), ("region", "eu"))
    assert dict(source.properties)["sasl.oauthbearer.client.credentials.client.secret"] == "s"
    assert "sasl.jaas.config" not in dict(source.properties)
    assert set(source.secrets) == {"p4ss", "s"}
    assert found.user == ""


@pytest.mark.parametrize(
    ("handler", "rule"),
    [
        ("no.such.module:Tokens", "module no not found"),
        (f"{__name__}:Missing", "class not found"),
        (f"{__name__}:read", f"{__name__}.read is not a class"),
        ("mm2.core.naming.names:Flow", "the class is not a login callback handler: it has no token"),
    ],
)
def test_plugins_that_cannot_be_used(tmp_path: Path, handler: str, rule: str) -> None:
    key, found, _ = problem(read(tmp_path, "", handler))
    assert key == HANDLER
    assert found.startswith(rule)


@pytest.mark.parametrize("handler", [None, f"{OAUTH}.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"])
def test_unsecured_tokens(tmp_path: Path, handler: str | None) -> None:
    options = (
        'unsecuredLoginStringClaim_sub="mm2" unsecuredLoginNumberClaim_n="1.5" unsecuredLoginListClaim_scope="|a|b" '
        'unsecuredLoginListClaim_none="" unsecuredLoginLifetimeSeconds="60" unsecuredLoginExtension_traceId="1" '
        'unsecuredLoginStringClaim_="ignored" other="ignored"'
    )
    result = read(tmp_path, options, handler)
    (warning,) = result.problems
    assert warning.is_warning
    assert warning.rule == "tokens without signature are for tests only: everyone can issue them"
    assert warning.fix.startswith(f"add {HANDLER}") or handler is not None
    found = login(result)
    assert isinstance(found.source, UnsecuredToken)
    assert json.loads(found.source.claims) == {"sub": "mm2", "n": 1.5, "scope": ["a", "b"], "none": []}
    assert found.source.lifetime_seconds == 60
    assert found.extensions == (("traceId", "1"),)


def test_another_principal_claim(tmp_path: Path) -> None:
    options = 'unsecuredLoginStringClaim_user="mm2" unsecuredLoginPrincipalClaimName="user"'
    assert isinstance(login(read(tmp_path, options, None)).source, UnsecuredToken)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ('unsecuredLoginStringClaim_a="b"', "must have the option unsecuredLoginStringClaim_sub"),
        ('unsecuredLoginStringClaim_sub=" "', "must have the option unsecuredLoginStringClaim_sub"),
        ('unsecuredLoginStringClaim_exp="1"', "option unsecuredLoginStringClaim_exp must not be set"),
        ('unsecuredLoginNumberClaim_a="b"', "option unsecuredLoginNumberClaim_a must be a number"),
        ('unsecuredLoginLifetimeSeconds="0"', "option unsecuredLoginLifetimeSeconds must be a whole number"),
        ('unsecuredLoginLifetimeSeconds="1.5"', "option unsecuredLoginLifetimeSeconds must be a whole number"),
        ('unsecuredLoginLifetimeSeconds="9999999999"', "option unsecuredLoginLifetimeSeconds must be a whole number"),
    ],
)
def test_invalid_options_of_unsecured_tokens(tmp_path: Path, options: str, rule: str) -> None:
    key, found, _ = problem(read(tmp_path, options, None))
    assert key == "A.sasl.jaas.config"
    assert found.startswith(rule)
