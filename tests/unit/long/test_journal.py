"""Stored results: the last one of each test at a commit, whatever happens to the run that writes them."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.long.journal import FAILED, PASSED, WRITTEN_BY_RUNS, Journal, Result, tree_version

RESULT = Result(
    test="tests/faults/test_a.py::test_a[1]",
    outcome=FAILED,
    seconds=1.5,
    commit="0123456789",
    date="2024-06-01",
    reason="AssertionError: 1 lost",
    properties=(("fault round", {"mode": "exactly-once"}),),
)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "new" / "results.jsonl")


def test_last_result_of_a_test_at_a_commit(journal: Journal) -> None:
    assert journal.latest(RESULT.commit) == {}
    passed, other = replace(RESULT, outcome=PASSED, reason=""), replace(RESULT, commit="9876543210")
    for one in (RESULT, passed, other):
        journal.add(one)
    assert [one.outcome for one in journal.latest(RESULT.commit).values()] == [PASSED]
    (found,) = journal.latest(other.commit).values()
    assert (found.reason, [*map(list, found.properties)]) == (RESULT.reason, [*map(list, RESULT.properties)])


def test_a_line_that_a_killed_run_left_unfinished_is_ignored(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    journal = Journal(file)
    journal.add(RESULT)
    with file.open("a") as end:
        end.write('{"test": "tests/faults/te')
    assert list(journal.latest(RESULT.commit)) == [RESULT.test]
    journal.add(replace(RESULT, test="later"))
    assert list(journal.latest(RESULT.commit)) == [RESULT.test, "later"]


def test_forgotten_results_are_those_of_these_tests_at_this_commit(journal: Journal) -> None:
    kept = replace(RESULT, test="kept")
    for one in (RESULT, kept, replace(RESULT, commit="9876543210")):
        journal.add(one)
    journal.forget([RESULT.test], RESULT.commit)
    assert list(journal.latest(RESULT.commit)) == ["kept"]
    assert list(journal.latest("9876543210")) == [RESULT.test]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    (tmp_path / WRITTEN_BY_RUNS).parent.mkdir(parents=True)
    (tmp_path / WRITTEN_BY_RUNS).write_text("results\n")
    (tmp_path / "code.py").write_text("1\n")
    (tmp_path / ".gitignore").write_text("build/\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    return tmp_path


def git(root: Path, *arguments: str) -> None:
    who = ("-c", "user.name=tests", "-c", "user.email=tests@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *arguments], cwd=root, check=True, timeout=60)


def test_version_of_a_tree_is_its_commit_and_what_differs_from_it(repository: Path) -> None:
    clean = tree_version(repository)
    assert len(clean) == 10
    (repository / WRITTEN_BY_RUNS).write_text("other results\n")
    (repository / "build").mkdir()
    (repository / "build/results").write_text("ignored")
    assert tree_version(repository) == clean
    (repository / "code.py").write_text("2\n")
    changed = tree_version(repository)
    assert changed.startswith(f"{clean}+")
    (repository / "new.py").write_text("3\n")
    new = tree_version(repository)
    assert new not in {clean, changed}
    (repository / "new.py").write_text("4\n")
    assert tree_version(repository) != new


def test_a_tree_without_git_has_no_version(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="not a git repository"):
        tree_version(tmp_path)
