"""Lists of regular expressions with invalid elements."""

from __future__ import annotations

from pathlib import Path

from tests.unit.config.files import loaded


def rules(directory: Path, text: str) -> list[str]:
    return [problem.rule.partition(":")[0] for problem in loaded(directory, f"topics = {text}\n").problems]


def test_every_invalid_element_is_reported(tmp_path: Path) -> None:
    assert rules(tmp_path, "orders, pay(ments, *.tmp, users") == [
        'element 2 "pay(ments" is not a valid Java regular expression',
        'element 3 "*.tmp" is not a valid Java regular expression',
    ]


def test_elements_that_are_valid_when_joined_are_not_reported(tmp_path: Path) -> None:
    assert rules(tmp_path, "(a,b)") == []
    assert rules(tmp_path, "(a,b), c)") == ['element 3 "c)" is not a valid Java regular expression']


def test_a_list_can_be_invalid_as_a_whole(tmp_path: Path) -> None:
    assert rules(tmp_path, "(?<n>a), (?<n>b)") == ["the list is not a valid Java regular expression"]


def test_fix_explains_backslashes(tmp_path: Path) -> None:
    fixes = [problem.fix for problem in loaded(tmp_path, "topics = \\\\p{x}, a)\n").problems]
    assert ["write a backslash as" in fix for fix in fixes] == [True, False]
