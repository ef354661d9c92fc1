"""The settings that example files resolve to, with the line of each. ``MM2_WRITE_GOLDEN=1 pytest
tests/golden/test_config_explained.py`` writes them anew: read them before you keep them."""

from __future__ import annotations

import os
from io import StringIO
from pathlib import Path

import pytest

from mm2.cli.explain import explain_file

FILES = Path(__file__).parent / "config"
CLUSTERS = {"three-sites": ("west",)}


@pytest.fixture(autouse=True)
def beside_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    monkeypatch.setenv("MM2_GOLDEN_HOST", "a.example.com")
    monkeypatch.setenv("MM2_GOLDEN_TASKS", "6")


@pytest.mark.parametrize("name", sorted(path.stem for path in FILES.glob("*.properties")))
def test_settings(name: str) -> None:
    out = StringIO()
    assert explain_file(Path(f"{name}.properties"), None, CLUSTERS.get(name, ()), out) == 0
    golden = FILES / "explained" / f"{name}.txt"
    if os.environ.get("MM2_WRITE_GOLDEN"):
        golden.write_text(out.getvalue(), "utf-8")
    assert out.getvalue() == golden.read_text("utf-8")
    assert "secret" not in out.getvalue()
    assert "geheim" not in out.getvalue()


def test_one_flow_is_that_part_of_the_whole() -> None:
    whole, part = StringIO(), StringIO()
    explain_file(Path("every-level.properties"), None, (), whole)
    assert explain_file(Path("every-level.properties"), "B->A", (), part) == 0
    assert part.getvalue() in whole.getvalue()
    assert "A->B  " not in part.getvalue()


def test_a_flow_that_is_not_there() -> None:
    out = StringIO()
    assert explain_file(Path("active-active.properties"), "A->C", (), out) == 2
    assert out.getvalue() == (
        "active-active.properties: --flow  there is no flow A->C to explain. There are A->B, B->A.\n"
    )


def test_a_bad_file_shows_its_errors() -> None:
    out = StringIO()
    assert explain_file(Path("bad/places.properties"), None, (), out) == 0
    out = StringIO()
    assert explain_file(Path("bad/numbers.properties"), None, (), out) == 2
    assert out.getvalue().count("\n") == 12
    assert out.getvalue().startswith("bad/numbers.properties:5 A->B.tasks.max = 0  must be at least 1")
