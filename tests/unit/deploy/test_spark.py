"""The environment shipped to executors contains everything that lanes import."""

from __future__ import annotations

import ast
import re
import sys

from tests.lab.commands import ROOT

LANE_MODULES = ("flows", "mm2/core", "mm2/kafka")
OWN = {"flows", "mm2"}
PROVIDED_BY_SPARK = {"pyspark"}  # on executors


def imported() -> set[str]:
    """Return the top-level names of external imports, without the standard library."""
    found: set[str] = set()
    for place in LANE_MODULES:
        for file in (ROOT / place).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Import):
                    found |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module:
                    found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names - OWN - PROVIDED_BY_SPARK


def test_packed_packages_equal_the_imports_of_lanes() -> None:
    script = (ROOT / "deploy" / "spark" / "pack.sh").read_text()
    packages = re.findall("^(?:packages|optional)='(.*)'$", script, re.MULTILINE)
    assert len(packages) == 2
    assert set(" ".join(packages).split()) == imported()
