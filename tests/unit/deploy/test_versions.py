"""README.md promises the versions of Python and Java that `make test-versions` runs."""

from __future__ import annotations

import re

from tests.lab.commands import ROOT

NEWEST = (ROOT / "deploy/setup/newest.sh").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")


def constant(name: str) -> str:
    found = re.search(rf"^{name}=(\S+)$", NEWEST, re.MULTILINE)
    assert found is not None
    return found[1]


def test_readme_promises_what_is_tested() -> None:
    oldest, newest = constant("OLDEST_PYTHON"), constant("NEWEST_PYTHON")
    old_java, new_java = constant("OLDEST_JAVA"), constant("NEWEST_JAVA")
    text = " ".join(README.split())
    assert f"Python {oldest} to {newest}" in text
    assert f"Java {old_java} to {new_java}." in text
    assert f"Java {old_java} to {new_java} must be in `PATH`" in text
    assert f"Tested with Python {oldest} and {newest}, Java {old_java} and {new_java}," in text


def test_the_oldest_python_is_that_of_the_package() -> None:
    assert f'requires-python = ">={constant("OLDEST_PYTHON")}"' in (ROOT / "pyproject.toml").read_text("utf-8")
