"""SASL mechanisms. More messages: tests/snapshots/config/bad/security-sasl.txt."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.config.files import loaded

SASL = "A.security.protocol = SASL_SSL\n"


@pytest.mark.parametrize(
    ("mechanism", "rule", "fix"),
    [
        ("GSSAPI", "GSSAPI is not supported", "use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"),
        ("OAUTHBEARER", "OAUTHBEARER is not supported", "use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"),
        ("AWS_MSK_IAM", "AWS_MSK_IAM is not supported", "use SCRAM-SHA-512 (also supported by Amazon MSK)"),
        ("SCRAM-SHA-265", "unknown SASL mechanism", "did you mean SCRAM-SHA-256?"),
        ("plain", "unknown SASL mechanism", "did you mean PLAIN?"),
        ("GSAPI", "unknown SASL mechanism", "did you mean GSSAPI?"),
        ("KERBEROS", "unknown SASL mechanism", "use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"),
    ],
)
def test_unsupported_and_misspelt_mechanisms(tmp_path: Path, mechanism: str, rule: str, fix: str) -> None:
    (problem,) = loaded(tmp_path, f"{SASL}A.sasl.mechanism = {mechanism}\n").problems
    assert (problem.line, problem.rule, problem.fix) == (6, rule, fix)


def test_the_fix_for_a_missing_mechanism_names_the_cluster(tmp_path: Path) -> None:
    (problem,) = loaded(tmp_path, SASL).problems
    assert problem.fix.startswith("add A.sasl.mechanism = SCRAM-SHA-512")
