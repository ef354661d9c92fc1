"""No test replaces a constant of our modules: what a test needs to differ is a value that is passed in."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")
OURS = ("mm2", "flows")
PATCHING = ("setattr", "patch", "object")  # of pytest, builtins, and unittest.mock


def patched_constants(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and name of each constant of our modules that ``source`` replaces."""
    if "setattr" not in source and "patch" not in source:
        return  # parsing all tests takes seconds
    tree = ast.parse(source)
    ours = dict(_imported(tree))
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not call.args:
            continue
        function = call.func
        if (function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")) not in PATCHING:
            continue
        target, *rest = call.args
        name = rest[0] if rest else None
        if isinstance(target, ast.Constant) and isinstance(target.value, str):  # "module.NAME"
            module, _, constant = target.value.rpartition(".")
        elif isinstance(name, ast.Constant) and isinstance(name.value, str):
            module, constant = ours.get(ast.unparse(target), ""), name.value
        else:
            continue
        if module.partition(".")[0] in OURS and CONSTANT.fullmatch(constant):
            yield call.lineno, f"{module}.{constant}"


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the names by which a test knows our modules and classes, and what they are."""
    for statement in ast.walk(tree):
        if isinstance(statement, ast.Import):
            for one in statement.names:
                yield one.asname or one.name, one.name
        elif isinstance(statement, ast.ImportFrom) and statement.module is not None:
            for one in statement.names:
                yield one.asname or one.name, f"{statement.module}.{one.name}"


def test_no_constant_of_our_modules_is_replaced() -> None:
    found = [
        f"{path.relative_to(TESTS.parent)}:{line}: replaces {name}; pass the value in instead"
        for path in sorted(TESTS.rglob("*.py"))
        for line, name in patched_constants(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ('monkeypatch.setattr("mm2.a.b.WAIT_S", 1)', "mm2.a.b.WAIT_S"),
        ('from mm2.a import b\nmonkeypatch.setattr(b, "_WAIT_S", 1)', "mm2.a.b._WAIT_S"),
        ('from flows import a as module\npatch.setattr(module, "WAIT_S", 1)', "flows.a.WAIT_S"),
        ('from mm2.a import b\nwith patch.object(b, "WAIT_S", 1): pass', "mm2.a.b.WAIT_S"),
        ('patch("mm2.a.b.WAIT_S", 1)', "mm2.a.b.WAIT_S"),
        ('import mm2.a.b\nsetattr(mm2.a.b, "WAIT_S", 1)', "mm2.a.b.WAIT_S"),
    ],
)
def test_replaced_constants_are_found(source: str, name: str) -> None:
    assert [found for _, found in patched_constants(source)] == [name]


@pytest.mark.parametrize(
    "source",
    [
        'import sys\nmonkeypatch.setattr(sys, "argv", [])',
        'from tests.lint import words\nmonkeypatch.setattr(words, "ROOT", path)',
        'from mm2.a import b\nmonkeypatch.setattr(b, "function", fails)',
        'monkeypatch.setattr("os.cpu_count", lambda: 8)',
    ],
)
def test_other_names_are_not_reported(source: str) -> None:
    assert list(patched_constants(source)) == []
