"""The environment that is shipped to executors has all that lanes import."""

from __future__ import annotations

import ast
import re
import sys

from tests.lab.commands import ROOT

WHERE_LANES_COME_FROM = ("flows", "mm2/core", "mm2/kafka")
OWN = {"flows", "mm2"}
SPARKS = {"pyspark"}  # executors have their Spark's


def imported() -> set[str]:
    """Top names of what is imported from outside, without the standard library."""
    found: set[str] = set()
    for place in WHERE_LANES_COME_FROM:
        for file in (ROOT / place).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Import):
                    found |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module:
                    found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names - OWN - SPARKS


def test_what_is_packed_is_what_lanes_import() -> None:
    script = (ROOT / "deploy" / "spark" / "pack.sh").read_text()
    packages = re.search("^packages='(.*)'$", script, re.MULTILINE)
    assert packages is not None
    assert set(packages[1].split()) == imported()
