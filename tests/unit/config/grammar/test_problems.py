from __future__ import annotations

import pytest

from mm2.config.grammar.problems import LONGEST_VALUE, ProblemLog
from mm2.config.grammar.properties import Entry, parse
from mm2.config.grammar.secrets import HIDDEN, is_secret, parts
from mm2.config.grammar.values import Value


def entry(key: str, value: str, *, raw: str | None = None, broken: bool = False) -> Entry:
    return Entry(file="f", line=7, key=key, raw=value if raw is None else raw, value=value, broken=broken)


def test_standard_form() -> None:
    problems = ProblemLog("f.properties")
    problems.warning("has no effect", "remove it", at=entry("b", "y"))
    problems.error("must be true or false", "write a = true", at=entry("a", "x"))
    problems.error("missing", "add clusters = A, B", key="clusters")
    problems.error("does not exist", "check the path")
    assert [str(problem) for problem in problems.in_order()] == [
        "f.properties: error: clusters: missing (fix: add clusters = A, B)",
        "f.properties: error: does not exist (fix: check the path)",
        "f.properties:7: error: a = x: must be true or false (fix: write a = true)",
        "f.properties:7: warning: b = y: has no effect (fix: remove it)",
    ]
    assert problems.failed


def test_warnings_are_not_errors() -> None:
    problems = ProblemLog("f")
    problems.warning("has no effect", "remove it", at=entry("b", "y"))
    assert not problems.failed
    assert not problems.has_error_at(entry("b", "y"))


def test_problem_is_one_line_of_limited_length() -> None:
    problems = ProblemLog("f")
    problems.error("too long", "shorten it", at=entry("a\nb", "x\ty" + "z" * 2 * LONGEST_VALUE))
    line = str(problems.in_order()[0])
    assert "\n" not in line
    assert line.startswith("f:7: error: a\\nb = x\\tyzzz")
    assert line.endswith("zz…: too long (fix: shorten it)")


def test_unresolved_values_are_reported_once() -> None:
    problems = ProblemLog("f")
    problems.error("must be true or false", "write true", at=entry("a", "${env:X}", broken=True))
    assert problems.in_order() == ()


def test_secrets_are_never_shown() -> None:
    for key in (
        *("A.sasl.jaas.config", "ssl.truststore.password", "A.ssl.key.password", "B.ssl.keystore.key"),
        *("ssl.keystore.certificate.chain", "ssl.truststore.certificates", "spark.ssl.keyPassword"),
        *("spark.hadoop.fs.s3a.secret.key", "spark.hadoop.fs.s3a.access.key", "basic.auth.credentials.source"),
        *("sasl.oauthbearer.client.credentials.client.secret", "some.token", "config.providers.v.param.token"),
        *("sasl.oauthbearer.assertion.private.key.passphrase", "spark.hadoop.fs.azure.account.key.store", "my.pwd"),
        *("my.api.key", "my.api_key", "accountKey"),
        *("A.sasl.pasword", "sasl.passowrd", "my.secert", "ssl.keystore.pass", "A.ssl.keystore.pin", "x.passcode"),
        *("spark.hadoop.fs.s3a.encryption.key", "spark.hadoop.fs.azure.sas.c.a", "my.private_key"),
        *("spark.executorEnv.PGPASS", "spark.kubernetes.driverEnv.AWS_KEY"),
    ):
        assert is_secret(key, "x"), key
    for key in (
        "inter.worker.key.ttl.ms",
        "sasl.oauthbearer.token.endpoint.url",
        "A.bootstrap.servers",
        "key.converter",
        "sasl.oauthbearer.assertion.private.key.file",
        "spark.io.encryption.keySizeBits",
        "spark.memory.bypass",
        "my.spinning",
    ):
        assert not is_secret(key, "x"), key
    for value in ('username="u" password="p";', "-----BEGIN PRIVATE KEY-----", "com.example.MyLoginModule required;"):
        assert is_secret("misspelt", value), value
    for value in ("https://h/t?code=sesame", "https://h/c?sv=1&sig=sesame", "set Authorization: Bearer sesame"):
        assert is_secret("misspelt", value), value
    assert entry("x", "resolved", raw='a.PlainLoginModule required username="${env:X}"').shown == HIDDEN
    assert repr(entry("my.password", "sesame")) == "Entry(f:7 my.password = [hidden])"
    assert repr(Value.of(entry("my.password", "sesame"))) == "Value(Entry(f:7 my.password = [hidden]))"
    assert repr(Value("made")) == "Value('made')"
    assert Value("sesame").shown("ssl.key.password") == HIDDEN
    assert Value.of(entry("a", "b")).shown("a") == "b"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('a.PlainLoginModule required username="user" password="open sesame";', ["open sesame"]),
        ("a.PlainLoginModule required username='user' password='open sesame';", ["open sesame"]),
        ("-Djavax.net.ssl.trustStorePassword=sesame -Dname=value", ["sesame"]),
        ("https://user:se/s@me@host/path", ["se/s@me"]),
        ("https://host/path?client_secret=sesame&name=value", ["sesame"]),
        ("https://host/path?name=value&sig=sesame", ["sesame"]),
        ("sesame", []),
    ],
)
def test_secrets_within_a_value(value: str, expected: list[str]) -> None:
    assert list(parts(value)) == expected


@pytest.mark.parametrize("separator", ["=", " = ", ":", ": ", " ", "\t", " \\\n  "])
def test_a_secret_with_an_invalid_escape_is_not_printed(separator: str) -> None:
    problems = ProblemLog("f")
    assert parse(f"A.ssl.key.password{separator}sesame\\u12\n".encode(), problems) == {}
    (problem,) = problems.in_order()
    assert (problem.key, problem.value) == ("A.ssl.key.password", HIDDEN)
    assert "sesame" not in str(problem)
