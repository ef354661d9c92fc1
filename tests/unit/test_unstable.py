"""The table of tests/unstable.md, as `make lint` checks it."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from tests.lint import unstable
from tests.lint.unstable import AT_MOST, row

HERE = "tests/unit/test_unstable.py"
HEAD = "# Unstable tests\n\n| test | date | commit | cause |\n|---|---|---|---|\n"
ROW = row(f"{HERE}::test_the_page_is_right[a|b]", date(2026, 11, 26), "8fe3da5", "not known: not within 5 s: a|b")


def findings(root: Path, *rows: str) -> list[str]:
    page = root / unstable.PAGE
    page.parent.mkdir()
    page.write_text(HEAD + "".join(f"{line}\n" for line in rows))
    (root / "tests/unit").mkdir()
    (root / HERE).write_bytes(Path(__file__).read_bytes())
    return list(unstable.findings(root))


def test_the_page_is_right() -> None:
    assert list(unstable.findings(Path(__file__).parents[2])) == []


def test_a_row_names_its_test(tmp_path: Path) -> None:
    assert findings(tmp_path, ROW) == []
    (one,) = unstable.rows((tmp_path / unstable.PAGE).read_text())
    assert one.test == f"{HERE}::test_the_page_is_right[a|b]"


def test_a_sixth_row_is_too_many(tmp_path: Path) -> None:
    rows = [ROW.replace("[a", f"[{number}") for number in range(AT_MOST + 1)]
    assert findings(tmp_path, *rows) == [
        "tests/unstable.md:10: more than 5 unstable tests: repair one before another is added"
    ]


@pytest.mark.parametrize(
    ("right", "wrong", "problem"),
    [
        ("::test_the_page", "::test_a_page", "does not exist: remove the row"),
        (HERE, "tests/unit/test_gone.py", "does not exist: remove the row"),
        ("`", "", "a test is named as"),
        ("2026-11-26", "26 Nov", "YEAR-MONTH-DAY, not '26 Nov'"),
        ("8fe3da5", "HEAD", "7 to 40 hexadecimal digits, not 'HEAD'"),
        ("| not known: not within 5 s: a\\|b |", "| |", "the cause is missing"),
        ("| 8fe3da5 ", "", "a row has 4 cells (test, date, commit, cause), not 3"),
    ],
)
def test_a_malformed_row_is_reported(right: str, wrong: str, problem: str, tmp_path: Path) -> None:
    assert right in ROW
    (line,) = findings(tmp_path, ROW.replace(right, wrong))
    assert line.startswith("tests/unstable.md:5: ")
    assert problem in line


def test_a_test_is_listed_once(tmp_path: Path) -> None:
    (line,) = findings(tmp_path, ROW, ROW)
    assert line.endswith("is listed twice")
