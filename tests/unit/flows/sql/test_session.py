"""The SQL session in an environment without the extra ``sql``."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
OPEN = """
from flows.sql.refusal import QueryRefusedError
from flows.sql.session import SqlSession
try:
    SqlSession(None).open()
except QueryRefusedError as error:
    print(error)
"""


@pytest.mark.parametrize("missing", [("pyarrow",), ("pandas",), ("pyarrow", "pandas")])
def test_packages_that_are_not_installed(tmp_path: Path, missing: tuple[str, ...]) -> None:
    for one in Path(sysconfig.get_path("purelib")).iterdir():
        if not one.name.startswith(missing):
            (tmp_path / one.name).symlink_to(one)
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-S", "-c", OPEN]  # without site-packages
    shown = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60).stdout
    assert shown == f"SQL flows need {' and '.join(missing)}; install them from requirements-runtime.lock (README.md)\n"
