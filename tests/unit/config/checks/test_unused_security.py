"""Files that encrypt or authenticate less than they appear to. Messages:
tests/snapshots/config/bad/security-unused.txt.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.config.files import loaded

PEM = Path(__file__).parents[3] / "snapshots" / "config" / "pem"
STORE = f"ssl.truststore.location = {PEM / 'ca.pem'}\n"
TYPE = "ssl.truststore.type = PEM\n"
JAAS = (
    'sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";\n'
)
PLAIN = "sasl.mechanism = PLAIN\n"


def found(directory: Path, lines: str, *, clusters: tuple[str, ...] = ()) -> list[tuple[int | None, str]]:
    """Return the line and the fix of each problem."""
    problems = loaded(directory, lines, clusters=clusters).problems
    return [(problem.line, problem.fix.split(",")[0]) for problem in problems if "no effect because" in problem.rule]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (f"A.{TYPE}A.{STORE}", [(6, "add A.security.protocol = SSL")]),
        (f"A.{TYPE}A.{STORE}A.security.protocol = PLAINTEXT\n", [(6, "write A.security.protocol = SSL")]),
        (f"{TYPE}{STORE}", [(6, "add security.protocol = SSL")]),
        (f"A.consumer.{TYPE}A.consumer.{STORE}", [(6, "add A.consumer.security.protocol = SSL")]),
        (f"A.{PLAIN}A.{JAAS}", [(5, "add A.security.protocol = SASL_SSL")]),
        (
            f"A.{PLAIN}A.{JAAS}A.{STORE}A.security.protocol = SSL\nA.{TYPE}",
            [(5, "write A.security.protocol = SASL_SSL")],
        ),
        (
            f"A.{PLAIN}A.{JAAS}A.{STORE}",
            [(5, "add A.security.protocol = SASL_SSL"), (7, "add A.security.protocol = SASL_SSL")],
        ),
        (
            f"A.security.protocol = SASL_PLAINTEXT\nA.{PLAIN}A.{JAAS}A.{STORE}",
            [(8, "write A.security.protocol = SASL_SSL")],
        ),
    ],
)
def test_unused_security_settings_are_reported(
    tmp_path: Path, lines: str, expected: list[tuple[int | None, str]]
) -> None:
    assert found(tmp_path, lines) == expected


@pytest.mark.parametrize(
    "lines",
    [
        f"{TYPE}{STORE}A.security.protocol = SSL\n",  # B needs no security
        f"{PLAIN}{JAAS}B.security.protocol = SASL_SSL\n",
        f"{TYPE}{STORE}security.protocol = SLL\n",  # already an error
        f"A->B.{STORE}",  # has a warning of its own
    ],
)
def test_used_security_settings_are_not_reported(tmp_path: Path, lines: str) -> None:
    assert found(tmp_path, lines) == []


def test_they_are_an_error_unless_a_line_says_plaintext(tmp_path: Path) -> None:
    login = f"A.{PLAIN}A.{JAAS}"
    (problem,) = loaded(tmp_path, login).problems
    assert not problem.is_warning
    assert problem.fix == "add A.security.protocol = SASL_SSL, or A.security.protocol = PLAINTEXT if that is intended"
    for line in ("A.security.protocol = PLAINTEXT\n", "mm2.unknown.keys = warn\n"):
        (problem,) = loaded(tmp_path, login + line).problems
        assert problem.is_warning, line


def test_clusters_of_other_nodes_are_considered(tmp_path: Path) -> None:
    lines = f"{TYPE}{STORE}clusters = A, B, C\nC.bootstrap.servers = c:9092\nC.security.protocol = SSL\n"
    lines += "A->C.enabled = true\n"
    assert found(tmp_path, lines, clusters=("B",)) == []


def test_listeners_use_ssl_without_a_prefix(tmp_path: Path) -> None:
    identity = f"ssl.keystore.type = PEM\nssl.keystore.location = {PEM / 'identity.pem'}\n"
    https = "listeners = https://:8443\n"
    assert found(tmp_path, https + identity) == []
