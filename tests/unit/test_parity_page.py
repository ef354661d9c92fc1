"""docs/contributing/parity.md lists all of Java's tests, and every test of this project that it names exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/contributing/parity.md").read_text("utf-8")
JAVA_TESTS = (
    ROOT / "tests/golden/java-4.3.1-tests.txt"
)  # Class.test, from the test jars of connect-mirror(-client) 4.3.1

OWN_TEST = re.compile(r"`(tests/[a-z0-9_/]+\.py)::(\w+)`")
REASONS = ("**Deviation**", "**Not yet**")


def rows() -> Iterator[tuple[str, str, str]]:
    """Yield Java's class, its tests and our description for every row under a class heading."""
    java_class = ""
    for line in PAGE.splitlines():
        if line.startswith("#"):
            java_class = line.removeprefix("### ") if line.startswith("### ") else ""
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if java_class and len(cells) == 3 and cells[0] != "Java's test":
            yield java_class, cells[0], cells[2]


@cache
def functions_of(path: str) -> frozenset[str]:
    """Return the functions of one of our files; none if the file does not exist."""
    file = ROOT / path
    tree = ast.parse(file.read_text("utf-8")) if file.is_file() else ast.Module(body=[], type_ignores=[])
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_every_java_test_is_listed_once() -> None:
    named = [f"{java_class}.{test}" for java_class, tests, _ in rows() for test in tests.split(", ")]
    assert sorted(named) == sorted(JAVA_TESTS.read_text().split())


def test_every_named_test_exists() -> None:
    named = OWN_TEST.findall(PAGE)
    assert len(named) > 100
    assert [f"{path}::{test}" for path, test in named if test not in functions_of(path)] == []
    assert PAGE.count("::") == len(named), "a test is named in a different form"


def test_every_row_has_a_test_or_a_reason() -> None:
    bare = [tests for _, tests, here in rows() if not OWN_TEST.search(here) and not here.startswith(REASONS)]
    assert bare == []
