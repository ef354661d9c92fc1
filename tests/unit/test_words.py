"""The word list of `make lint`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lint import words


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("A->B goes on otherwise", "goes on"),
        ("# Whoever reads this.", "Whoever"),
        ("lanes: two parted by commas", "parted by"),
        ("see contract.md, section 2", "contract.md"),
    ],
)
def test_words_are_found_with_file_and_line(
    text: str, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(f"A first line.\n{text}\n")
    assert [line.split(": ")[:2] for line in words.findings(page)] == [["page.md:2", f"'{word}'"]]


def test_parts_of_words_are_not_reported(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("beginning, cargo on board, manewver\n")
    assert not list(words.findings(page))


def test_every_checked_directory_has_files() -> None:
    read = {path.relative_to(words.ROOT).parts[0] for path in words.files()}
    assert read == set(words.PLACES)
