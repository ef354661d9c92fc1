"""Files with two aliases for one cluster. Messages: tests/snapshots/config/bad/same-brokers.txt."""

from __future__ import annotations

from pathlib import Path

import pytest

from mm2.config.load import load

BOTH_WAYS = "A->B.enabled = true\nB->A.enabled = true\n"


@pytest.mark.parametrize(
    ("brokers", "lines"),
    [
        ("A.bootstrap.servers = a:9092\nB.bootstrap.servers = b:9092\n", []),
        ("A.bootstrap.servers = a:9092\nB.bootstrap.servers = a:9093\n", []),
        ("A.bootstrap.servers = a:9092\nB.bootstrap.servers = b:9092, A:9092\n", [3]),
        ("B.bootstrap.servers = a:9092\nA.bootstrap.servers = a:9092\n", [3]),
        ("bootstrap.servers = a:9092\nB.bootstrap.servers = b:9092\n", []),
    ],
)
def test_the_same_brokers_for_two_aliases_are_a_warning(tmp_path: Path, brokers: str, lines: list[int]) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(f"clusters = A, B\n{brokers}{BOTH_WAYS}")
    warnings = load(file)
    found = [problem.line for problem in warnings.problems if problem.is_warning and "same cluster" in str(problem)]
    assert found == lines
    assert warnings.settings is not None


def test_same_cluster_is_allowed_without_a_flow_between_the_aliases(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = A, B, C\nA.bootstrap.servers = a:9092\nB.bootstrap.servers = b:9092\nC.bootstrap.servers = a:9092\n"
        + BOTH_WAYS
    )
    assert not [problem for problem in load(file).problems if "same cluster" in str(problem)]
