"""Every file named in the documentation exists, and every link between its pages is valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/**/*.md")])

PATH = re.compile(r"`((?:mm2|flows|tests|deploy|docs)/[\w./-]*[\w/])(?:::\w+)?`")
NAMED_PAGE = re.compile(r"(?<![\w/])docs/[\w/-]+\.md")
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_named_file_exists(page: Path) -> None:
    named = PATH.findall(page.read_text("utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_has_a_target(page: Path) -> None:
    links = [target for target, _ in LINK.findall(page.read_text("utf-8"))]
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("place", ["mm2", "flows", "tests", "deploy"])
def test_every_page_named_in_other_files_exists(place: str) -> None:
    """Messages, comments and docstrings refer to pages by their path."""
    named = {
        (path.relative_to(ROOT), page)
        for path in (ROOT / place).rglob("*")
        if path.is_file() and path.suffix not in {".pyc", ".json"}
        for page in NAMED_PAGE.findall(path.read_text("utf-8", errors="ignore"))
    }
    assert [(str(path), page) for path, page in sorted(named) if not (ROOT / page).exists()] == []


def test_patterns_match_something() -> None:
    """A pattern that matches nothing would make the tests above pass for any page."""
    text = (ROOT / "docs/contributing/architecture.md").read_text("utf-8")
    assert len(PATH.findall(text)) > 20
    assert len(LINK.findall(text)) > 5
    assert NAMED_PAGE.findall((ROOT / "deploy/systemd/mm2.service").read_text("utf-8"))
