"""`.ci/confirm`, run in a small tree with tests that fail once, always or never."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.lab.commands import ROOT

CONFTEST = """
from tests.lab.confirm import FailureRecorder

def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailureRecorder(config))
"""
TESTS = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("kind", ["never", "once [a|b] - c", "also once", "always", "wrong copy"])
def test_it(kind):
    marker = Path(kind.replace(" ", "_"))
    first = not marker.exists()
    marker.touch()
    assert kind != "wrong copy" or not first, f"300 source records, {2} lost: 0@7, 0@8"
    assert "once" not in kind or not first, "not within 5 s: it happens"
    assert kind != "always"
"""
UNSTABLE = "tests/test_some.py::test_it[once [a|b] - c]"


class Tree:
    """A copy of what `.ci/confirm` needs, and the tests above."""

    def __init__(self, root: Path) -> None:
        self._root = root
        for file in (".ci/confirm", "tests/lab/confirm.py", "tests/lint/unstable.py", "tests/unstable.md"):
            copy = root / file
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, copy)
        (root / ".venv").symlink_to(ROOT / ".venv")
        (root / "tests/conftest.py").write_text(CONFTEST)
        (root / "tests/test_some.py").write_text(TESTS)

    def make_test_slow(self, *kinds: str, arguments: tuple[str, ...] = ()) -> None:
        """Run the tests of some kinds, as `make test-slow` runs all."""
        tests = [f"tests/test_some.py::test_it[{kind}]" for kind in kinds]
        ended = self._run(".venv/bin/python", "-m", "pytest", *arguments, *tests)
        (self._root / "log").write_text(ended.stdout)

    def confirm(self) -> tuple[int, str]:
        """Return the exit code and the output of `.ci/confirm`."""
        ended = self._run("bash", ".ci/confirm", "log")
        return ended.returncode, ended.stdout

    def list_unstable(self, test: str) -> None:
        with (self._root / "tests/unstable.md").open("a") as page:
            page.write(f"| `{test.replace('|', chr(92) + '|')}` | 2026-01-01 | 8fe3da5 | not known |\n")

    def _run(self, *command: str) -> subprocess.CompletedProcess[str]:
        # Without xdist and the other plugins a start takes half a second less. PYTHONPATH: tests.lab of this tree.
        environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(self._root)}
        for name in [name for name in environment if name.startswith(("PYTEST_XDIST", "PYTEST_CURRENT"))]:
            del environment[name]
        return subprocess.run(
            command,
            cwd=self._root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_one_test_that_passes_alone_is_reported_as_unstable(tree: Tree) -> None:
    """With xdist, in which the process that collects reports runs no tests."""
    tree.make_test_slow("never", "once [a|b] - c", arguments=("-p", "xdist", "-n", "2", "--dist", "loadfile"))
    code, output = tree.confirm()
    assert code == 0, output
    assert output.count("1 passed") == 3
    assert f"UNSTABLE: {UNSTABLE}: failed beside other tests, and passed 3 times alone" in output
    row = output.splitlines()[-1]
    assert row.startswith("| `tests/test_some.py::test_it[once [a\\|b] - c]` | 20")
    assert "| not known: AssertionError: not within 5 s: it happens" in row
    tree.list_unstable(UNSTABLE)


def test_a_test_that_is_listed_is_reported_without_a_row(tree: Tree) -> None:
    tree.make_test_slow("once [a|b] - c")
    tree.list_unstable(UNSTABLE)
    code, output = tree.confirm()
    assert code == 0, output
    assert "UNSTABLE: " in output
    assert output.endswith("confirm: it is listed in tests/unstable.md; repair it\n")


def test_a_test_that_fails_again_fails(tree: Tree) -> None:
    tree.make_test_slow("never", "always")
    code, output = tree.confirm()
    assert code == 1, output
    assert "run 2 of 3" not in output
    assert output.endswith("confirm: it failed again: tests/test_some.py::test_it[always]\n")
    assert "UNSTABLE" not in output


def test_two_failed_tests_fail(tree: Tree) -> None:
    tree.make_test_slow("once [a|b] - c", "also once")
    code, output = tree.confirm()
    assert code == 1
    assert output == "confirm: 2 tests failed; only a single one is run again\n"


def test_a_wrong_copy_is_never_run_again(tree: Tree) -> None:
    tree.make_test_slow("wrong copy")
    code, output = tree.confirm()
    assert code == 1
    assert output == "confirm: a copy was wrong; nothing is run again\n"


@pytest.mark.parametrize(("kinds", "code"), [(["never"], 0), (["unknown"], 4)])
def test_a_run_that_ended_otherwise_is_not_confirmed(kinds: list[str], code: int, tree: Tree) -> None:
    tree.make_test_slow(*kinds)
    assert tree.confirm() == (
        1,
        f"confirm: the run did not end with failed tests, but with pytest's exit code {code}\n",
    )
