"""Advice on lists of topics and groups: it never selects or excludes more than was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.config.files import loaded


@pytest.mark.parametrize(
    ("line", "rule", "fix"),
    [
        (
            r"topics.exclude = mm2.*internal, .*\replica, __consumer_offsets",
            r"element 2: \r is a carriage return, as in Java, and no name contains one",
            r"replace element 2, by .*\\.replica if a dot was meant, else by .*replica",
        ),
        (
            r"A->B.groups.exclude = .*\test",
            r"element 1: \t is a tab, as in Java, and no name contains one",
            r"replace element 1, by .*\\.test if a dot was meant, else by .*test",
        ),
        (
            "topics.exclude = secret.*, .* temp",
            'element 2 ".* temp" contains a space, which no topic name contains',
            "correct element 2: split there, it would match every topic",
        ),
        (
            r"topics.exclude = pii\\..* old\\..*",
            r'element 1 "pii\..* old\..*" contains a space, which no topic name contains',
            r"write topics.exclude = pii\\..*, old\\..*",
        ),
        (
            r"topics.exclude = secret\\..*, .*",
            "excludes every topic, so only heartbeats are replicated",
            r"write topics.exclude = secret\\..* to exclude only its other elements; all other topics are replicated",
        ),
        (
            "topics.exclude = .*",
            "excludes every topic, so only heartbeats are replicated",
            r"write topics.exclude = mm2.*\\.internal, .*\\.replica, __.* to exclude only the default;"
            " all other topics are replicated",
        ),
        (
            "A->B.topics = __.*",
            "the default of topics.exclude contains every element, so only heartbeats are replicated",
            r"add A->B.topics.exclude = mm2.*\\.internal, .*\\.replica, the rest of the default, so that what matches "
            "__.* is replicated",
        ),
    ],
)
def test_advice(tmp_path: Path, line: str, rule: str, fix: str) -> None:
    (problem,) = loaded(tmp_path, f"{line}\n").problems
    assert problem.rule == rule
    assert problem.fix == fix


@pytest.mark.parametrize(
    "line", [r"topics = orders,\nusers", r"topics = orders,\tusers\n", r"topics.exclude = a\\replica"]
)
def test_whitespace_around_elements_is_not_part_of_them(tmp_path: Path, line: str) -> None:
    assert not any("as in Java, and no name" in problem.rule for problem in loaded(tmp_path, f"{line}\n").problems)
