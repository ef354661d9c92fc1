from __future__ import annotations

from mm2.config.problems import LONGEST_VALUE, ProblemLog
from mm2.config.properties import Entry
from mm2.config.secrets import HIDDEN, is_secret
from mm2.config.values import Value


def entry(key: str, value: str, *, raw: str | None = None, broken: bool = False) -> Entry:
    return Entry(file="f", line=7, key=key, raw=value if raw is None else raw, value=value, broken=broken)


def test_the_house_form() -> None:
    problems = ProblemLog("f.properties")
    problems.error("does not exist.")
    problems.error("is missing.", key="clusters")
    problems.error("must be true or false.", at=entry("a", "x"))
    problems.warning("has no effect.", at=entry("b", "y"))
    assert [str(problem) for problem in problems.in_order()] == [
        "f.properties: does not exist.",
        "f.properties: clusters  is missing.",
        "f.properties:7 a = x  must be true or false.",
        "warning: f.properties:7 b = y  has no effect.",
    ]
    assert problems.failed


def test_warnings_alone_are_no_failure() -> None:
    problems = ProblemLog("f")
    problems.warning("has no effect.", at=entry("b", "y"))
    assert not problems.failed
    assert not problems.has_error_at(entry("b", "y"))


def test_a_problem_is_one_line_of_bounded_length() -> None:
    problems = ProblemLog("f")
    problems.error("is long.", at=entry("a\nb", "x\ty" + "z" * 2 * LONGEST_VALUE))
    line = str(problems.in_order()[0])
    assert "\n" not in line
    assert line.startswith("f:7 a\\nb = x\\tyzzz")
    assert line.endswith("zz…  is long.")


def test_nothing_more_is_said_about_a_value_that_cannot_be_had() -> None:
    problems = ProblemLog("f")
    problems.error("must be true or false.", at=entry("a", "${env:X}", broken=True))
    assert problems.in_order() == ()


def test_secrets_are_never_shown() -> None:
    for key in (
        *("A.sasl.jaas.config", "ssl.truststore.password", "A.ssl.key.password", "B.ssl.keystore.key"),
        *("ssl.keystore.certificate.chain", "ssl.truststore.certificates", "spark.ssl.keyPassword"),
        *("spark.hadoop.fs.s3a.secret.key", "spark.hadoop.fs.s3a.access.key", "basic.auth.credentials.source"),
        *("sasl.oauthbearer.client.credentials.client.secret", "some.token", "config.providers.v.param.token"),
        "sasl.oauthbearer.assertion.private.key.passphrase",
    ):
        assert is_secret(key, "x"), key
    for key in (
        "inter.worker.key.ttl.ms",
        "sasl.oauthbearer.token.endpoint.url",
        "A.bootstrap.servers",
        "key.converter",
    ):
        assert not is_secret(key, "x"), key
    for value in ('username="u" password="p";', "-----BEGIN PRIVATE KEY-----", "com.example.MyLoginModule required;"):
        assert is_secret("misspelt", value), value
    assert entry("x", "resolved", raw='a.PlainLoginModule required username="${env:X}"').shown == HIDDEN
    assert repr(entry("my.password", "sesame")) == "Entry(f:7 my.password = [hidden])"
    assert repr(Value.of(entry("my.password", "sesame"))) == "Value(Entry(f:7 my.password = [hidden]))"
    assert repr(Value("made")) == "Value('made')"
    assert Value("sesame").shown("ssl.key.password") == HIDDEN
    assert Value.of(entry("a", "b")).shown("a") == "b"
