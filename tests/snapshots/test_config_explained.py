"""The settings of example files, with the line of each.

``MM2_WRITE_SNAPSHOTS=1 pytest tests/snapshots/test_config_explained.py`` rewrites the snapshots; read them before you
commit them.
"""

from __future__ import annotations

import os
from io import StringIO
from pathlib import Path

import pytest

from mm2.cli.file.explain import explain_file

FILES = Path(__file__).parents[1] / "golden" / "config"
BAD = Path(__file__).parent / "config" / "bad"
SNAPSHOTS = Path(__file__).parent / "config" / "explained"
CLUSTERS = {"three-sites": ("west",)}


@pytest.fixture(autouse=True)
def in_example_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    monkeypatch.setenv("MM2_GOLDEN_HOST", "a.example.com")
    monkeypatch.setenv("MM2_GOLDEN_TASKS", "6")


@pytest.mark.parametrize("name", sorted(path.stem for path in FILES.glob("*.properties")))
def test_settings(name: str) -> None:
    out = StringIO()
    assert explain_file(Path(f"{name}.properties"), None, CLUSTERS.get(name, ()), out) == 0
    snapshot = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("MM2_WRITE_SNAPSHOTS"):
        snapshot.write_text(out.getvalue(), "utf-8")
    assert out.getvalue() == snapshot.read_text("utf-8")
    assert "secret" not in out.getvalue().replace("${file:secrets/", "").replace("${dir:secrets:", "")
    assert "geheim" not in out.getvalue()


def test_one_flow_is_a_part_of_the_full_output() -> None:
    whole, part = StringIO(), StringIO()
    explain_file(Path("every-level.properties"), None, (), whole)
    assert explain_file(Path("every-level.properties"), "B->A", (), part) == 0
    settings, _, last = part.getvalue().rpartition("\n\n")
    assert settings in whole.getvalue()
    assert last == "4 warnings; see mm2 check every-level.properties\n"
    assert "A->B  " not in part.getvalue()


def test_unknown_flow() -> None:
    out = StringIO()
    assert explain_file(Path("active-active.properties"), "A->C", (), out) == 2
    assert out.getvalue() == (
        "active-active.properties: error: --flow: has no flow A->C\n    fix: use one of its flows: A->B, B->A\n"
    )


def test_a_bad_file_shows_its_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BAD)
    for name in ("numbers", "flows"):  # errors; errors and warnings
        out = StringIO()
        assert explain_file(Path(f"{name}.properties"), None, (), out) == 2
        assert out.getvalue() == (BAD / f"{name}.txt").read_text("utf-8")


def test_a_file_with_warnings_counts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BAD)
    out = StringIO()
    assert explain_file(Path("near-misses-accepted.properties"), None, (), out) == 0
    warnings = (BAD / "near-misses-accepted.txt").read_text("utf-8").count(": warning: ")
    assert out.getvalue().endswith(f"\n\n{warnings} warnings; see mm2 check near-misses-accepted.properties\n")
