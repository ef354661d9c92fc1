"""Checks the table of tests/unstable.md: ``python -m tests.lint.unstable`` prints each problem and exits with 1."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

PAGE = Path("tests/unstable.md")  # relative to the root of the project, like the names of tests
AT_MOST = 5  # with more, a failed build says little

_SEPARATOR = re.compile(r"(?<!\\)\|")
_COMMIT = re.compile(r"[0-9a-f]{7,40}")
_HEAD = ["test", "date", "commit", "cause"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of the table, and its cells as they are written there."""

    line: int
    cells: tuple[str, ...]

    @property
    def test(self) -> str:
        """The test as pytest names it."""
        return self.cells[0].strip("`").replace(r"\|", "|")


def row(test: str, day: date, commit: str, cause: str) -> str:
    """Return a line of the table."""
    cells = (f"`{test}`", day.isoformat(), commit, cause)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def rows(page: str) -> list[Row]:
    """Return the lines of the table below its head and rule."""
    lines = [
        Row(line=number, cells=tuple(cell.strip() for cell in _SEPARATOR.split(text.strip())[1:-1]))
        for number, text in enumerate(page.splitlines(), start=1)
        if text.lstrip().startswith("|")
    ]
    return lines[2:]


def findings(root: Path) -> Iterator[str]:
    """Yield ``FILE:LINE: problem``."""
    found = rows((root / PAGE).read_text("utf-8"))
    for extra in found[AT_MOST:]:
        yield f"{PAGE}:{extra.line}: more than {AT_MOST} unstable tests: repair one before another is added"
    seen: set[str] = set()
    for one in found:
        for problem in _problems(root, one):
            yield f"{PAGE}:{one.line}: {problem}"
        if one.test in seen:
            yield f"{PAGE}:{one.line}: {one.test} is listed twice"
        seen.add(one.test)


def _problems(root: Path, one: Row) -> Iterator[str]:
    if len(one.cells) != len(_HEAD):
        yield f"a row has {len(_HEAD)} cells ({', '.join(_HEAD)}), not {len(one.cells)}"
        return
    test, day, commit, cause = one.cells
    if not (test.startswith("`") and test.endswith("`") and len(test) > 2):
        yield f"a test is named as `tests/DIRECTORY/test_FILE.py::test_NAME`, not {test}"
    elif not _exists(root, one.test):
        yield f"{one.test} does not exist: remove the row"
    try:
        date.fromisoformat(day)
    except ValueError:
        yield f"the date of the failure is YEAR-MONTH-DAY, not {day!r}"
    if not _COMMIT.fullmatch(commit):
        yield f"the commit has 7 to 40 hexadecimal digits, not {commit!r}"
    if not cause:
        yield "the cause is missing; write: not known"


def _exists(root: Path, test: str) -> bool:
    """Whether the function exists. Its parameters are not checked: that would take a collection of all tests."""
    file, _, name = test.partition("::")
    path = root / file
    if not (file.startswith("tests/") and path.is_file()):
        return False
    function = name.partition("[")[0].rpartition("::")[2]
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return any(isinstance(node, functions) and node.name == function for node in ast.walk(ast.parse(path.read_bytes())))


def main() -> int:
    """Print all findings; return 1 if there are any."""
    found = list(findings(Path()))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
