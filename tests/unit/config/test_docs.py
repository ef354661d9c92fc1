from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from mm2.config.docs import PAGE, page
from mm2.config.load import load

ROOT = Path(__file__).parents[3]


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / PAGE).read_text("utf-8") == page(), "write it anew: make docs"


def test_the_module_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "page.md"
    monkeypatch.setattr(sys, "argv", ["docs", str(target)])
    runpy.run_path(str(ROOT / "mm2/config/docs.py"), run_name="__main__")
    assert target.read_text("utf-8") == page()


def test_the_example_has_no_problems() -> None:
    example = load(ROOT / "mm2.properties.example")
    assert example.problems == ()
    assert example.settings is not None
    assert example.settings.flows[0].clients.source_admin.bootstrap_servers == ("127.0.0.1:19092",)
    assert example.settings.flows[0].clients.target_admin.bootstrap_servers == ("127.0.0.1:29092",)
