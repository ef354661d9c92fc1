from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from mm2.config.docs import DIRECTORY, MARK, PAGES, page
from mm2.config.load import load

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_up_to_date(name: str) -> None:
    current = (ROOT / DIRECTORY / name).read_text("utf-8")
    assert MARK in current
    assert current == page(name, current), "run make docs"


def test_the_module_writes_the_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PAGES:
        (tmp_path / name).write_text(f"By hand.\n{MARK}Text of an older release.\n", "utf-8")
    monkeypatch.setattr(sys, "argv", ["docs", str(tmp_path)])
    runpy.run_path(str(ROOT / "mm2/config/docs.py"), run_name="__main__")
    for name in PAGES:
        written = (tmp_path / name).read_text("utf-8")
        assert written.startswith(f"By hand.\n{MARK}\n## ")
        assert (ROOT / DIRECTORY / name).read_text("utf-8").endswith(written.removeprefix("By hand.\n"))


def test_example_has_no_problems() -> None:
    example = load(ROOT / "mm2.properties.example")
    assert example.problems == ()
    assert example.settings is not None
    assert example.settings.flows[0].clients.source_admin.bootstrap_servers == ("127.0.0.1:19092",)
