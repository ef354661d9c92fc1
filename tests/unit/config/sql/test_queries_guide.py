"""The examples of docs/how-to/queries.md are accepted by `mm2 check`. Spark's answer: tests/integration/queries."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from mm2.config.load import load
from mm2.core.settings.row_query import RowQuery, RowTransform
from tests.lab.docs import write_blocks
from tests.unit.config import files

PAGE = Path(__file__).parents[4] / "docs/how-to/queries.md"


def test_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SALT", "pepper")
    assert set(write_blocks(PAGE, tmp_path)) == {"mm2.properties", "acme_queries.py"}
    loaded = load(tmp_path / "mm2.properties")
    assert loaded.problems == ()
    assert loaded.settings is not None
    queries = {one.name: one.action for one in loaded.settings.flows[0].queries.in_order}
    does = {name: str(action) for name, action in queries.items()}
    assert does == {
        "mask": "sets value, drops records",
        "country": "drops records",
        "keys": "sets key",
        "origin": "sets headers",
        "headers": "sets headers",
        "live": "drops records",
        "large": "drops records",
    }
    assert isinstance(queries["mask"], RowQuery)
    assert r"""r'"card":"\d{12}'""" in queries["mask"].columns["value"]  # type: ignore[index]
    assert isinstance(queries["keys"], RowQuery)
    assert "pepper" in queries["keys"].columns["key"]  # type: ignore[index]
    assert "pepper" not in queries["keys"].text


def test_transform(tmp_path: Path) -> None:
    write_blocks(PAGE, tmp_path)
    lines = "\n".join(re.findall(r"^    (A->B\.mm2\.sql\.\S+ = .*)$", PAGE.read_text("utf-8"), re.MULTILINE))
    query = files.flow(tmp_path, lines).query_of("payments")
    assert query is not None
    assert isinstance(query.action, RowTransform)
    module = ast.parse((tmp_path / f"{query.action.module}.py").read_text())
    assert query.action.function in {one.name for one in module.body if isinstance(one, ast.FunctionDef)}
