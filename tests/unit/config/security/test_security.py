"""SASL mechanisms. More messages: tests/snapshots/config/bad/security-sasl.txt."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.config.files import loaded

SASL = "A.security.protocol = SASL_SSL\n"


@pytest.mark.parametrize(
    ("mechanism", "rule", "fix"),
    [
        ("SCRAM-SHA-265", "unknown SASL mechanism", "did you mean SCRAM-SHA-256?"),
        ("plain", "unknown SASL mechanism", "did you mean PLAIN?"),
        ("GSAPI", "unknown SASL mechanism", "did you mean GSSAPI?"),
        ("KERBEROS", "unknown SASL mechanism", "use GSSAPI, PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"),
    ],
)
def test_unsupported_and_misspelt_mechanisms(tmp_path: Path, mechanism: str, rule: str, fix: str) -> None:
    (problem,) = loaded(tmp_path, f"{SASL}A.sasl.mechanism = {mechanism}\n").problems
    assert (problem.line, problem.rule, problem.fix) == (6, rule, fix)


def test_iam_of_amazon_msk_is_a_plugin(tmp_path: Path) -> None:
    (problem,) = loaded(tmp_path, f"{SASL}A.sasl.mechanism = AWS_MSK_IAM\n").problems
    assert problem.rule == "AWS_MSK_IAM is not supported"
    assert "A.sasl.mechanism = OAUTHBEARER" in problem.fix
    assert "A.sasl.login.callback.handler.class = msk_iam:MskIamTokens" in problem.fix


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_java_login_handlers_of_passwords_are_refused(tmp_path: Path, mechanism: str) -> None:
    lines = f"{SASL}A.sasl.mechanism = {mechanism}\nA.sasl.login.callback.handler.class = com.example.Login\n"
    rules = [problem.rule for problem in loaded(tmp_path, lines).problems]
    assert "not supported: Java classes cannot be loaded" in rules


def test_the_default_mechanism(tmp_path: Path) -> None:
    (problem,) = loaded(tmp_path, SASL).problems
    assert problem.rule == "requires A.sasl.jaas.config, which is not set; sasl.mechanism is GSSAPI by default"
