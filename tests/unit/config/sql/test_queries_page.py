"""docs/reference/queries.md and mm2.properties.example describe what the check does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mm2.config.sql.query_parser import check_query
from mm2.core.settings.row_query import COLUMNS, ResultColumn, RowQuery
from tests.unit.config import files

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs/reference/queries.md").read_text("utf-8")
EXAMPLE = (ROOT / "mm2.properties.example").read_text("utf-8")


def section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_example_of_the_page(tmp_path: Path) -> None:
    (tmp_path / "keys.sql").write_text("SELECT sha2(key, 256) AS key FROM records")
    (block,) = re.findall(r"```properties\n(.*?)```", PAGE, re.DOTALL)
    loaded = files.loaded(tmp_path, block)
    assert loaded.problems == ()
    assert loaded.settings is not None
    assert [one.name for one in loaded.settings.flows[0].queries.in_order] == ["mask", "keys"]


def test_example_file(tmp_path: Path) -> None:
    lines = re.findall(r"^# (A->B\.mm2\.sql(?:.*\\\n#)*.*)$", EXAMPLE, re.MULTILINE)
    assert len(lines) == 3
    flow = files.flow(tmp_path, "\n".join(lines).replace("\n#", "\n"))
    query = flow.query_of("payments")
    assert query is not None
    assert isinstance(query.action, RowQuery)
    assert r"r'\d{12}'" in query.action.columns[ResultColumn.VALUE]
    assert query.action.condition is not None


def test_columns() -> None:
    rows = [row for row in section("What a query can read").splitlines() if row.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(named) == sorted(COLUMNS)
    types = [name for row in rows for name in re.findall(r"`([a-z<>,:]+)`", row.split("|")[2].partition(";")[0])]
    assert set(types) <= set(COLUMNS.values())


REJECTED = [
    name for row in section("What is rejected").splitlines() for name in re.findall(r"`([a-z_]+)(?:\(\))?`", row)
]


@pytest.mark.parametrize("function", sorted(set(REJECTED) - {"timestamp"}))
def test_functions_that_are_rejected(function: str) -> None:
    argument = "" if function in ("unix_timestamp", "current_timezone") else "headers"
    (finding,) = check_query(f"SELECT {function}({argument}) AS value FROM records").findings
    assert not finding.is_warning
    assert finding.rule.startswith(function)
