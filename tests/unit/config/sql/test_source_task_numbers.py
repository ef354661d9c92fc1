"""Source tasks of queries need numbers of their own, which are limited."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.config.files import loaded

QUERIES = "".join(
    f"mm2.sql.{name}.topics = {name}\nmm2.sql.{name}.query = SELECT key FROM records WHERE key IS NOT NULL\n"
    for name in ("a", "b")
)


def test_the_highest_number(tmp_path: Path) -> None:
    assert loaded(tmp_path, QUERIES + "tasks.max = 33333\n").settings is not None
    assert loaded(tmp_path, "tasks.max = 2147483647\n").settings is not None
    assert loaded(tmp_path, QUERIES + "tasks.max = 33334\nA->B.enabled = false\n").settings is not None


@pytest.mark.parametrize(
    ("lines", "rule"),
    [
        (QUERIES + "tasks.max = 33334\n", "must be at most 33333 with 2 queries: each query has as many source tasks"),
        (QUERIES.partition("mm2.sql.b")[0] + "A->B.tasks.max = 50001\n", "must be at most 50000 with 1 query: "),
    ],
)
def test_too_many_source_tasks(tmp_path: Path, lines: str, rule: str) -> None:
    (problem,) = loaded(tmp_path, lines).problems
    assert rule in str(problem)
    assert "of its own, and a flow at most 100000" in str(problem)
