"""Our commands as users run them: ``.venv/bin/mm2 …``, until they exit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

from mm2.cli.commands import execute, mm2_app
from tests.lab.waiting import GaveUp

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0  # seconds for a command that queries and exits: two for Python and its imports, more on busy cores


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Exit code and output of a command."""

    code: int
    stdout: str
    stderr: str


def command_path(name: str) -> str:
    """Return the installed script next to the Python that runs the tests."""
    return str(Path(sys.executable).with_name(name))


def run(name: str, *arguments: str, env: Mapping[str, str] | None = None, timeout: float = PATIENCE) -> Outcome:
    """Run ``mm2`` or ``connect-mirror-maker`` until it ends, without a terminal. Raises GaveUp."""
    ended = run_within(
        timeout,
        [command_path(name), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
    )
    return Outcome(code=ended.returncode, stdout=ended.stdout, stderr=ended.stderr)


def run_here(*arguments: str, env: Mapping[str, str] | None = None) -> Outcome:
    """Run ``mm2`` in this process, which takes half a second of CPU less than `run`, for Python and its imports.

    One at a time, as it writes to this process's standard output.
    """
    out, err = StringIO(), StringIO()
    with patch.dict(os.environ, env or {}), redirect_stdout(out), redirect_stderr(err):
        code = execute(mm2_app(), arguments)
    return Outcome(code=code, stdout=out.getvalue(), stderr=err.getvalue())


def run_within(timeout: float, command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run`, for any exit code. Raises GaveUp if the command has not ended after ``timeout`` seconds."""
    try:
        return subprocess.run(command, timeout=timeout, check=False, **options)
    except subprocess.TimeoutExpired:
        raise GaveUp(f"not within {timeout:g} s: {' '.join(command)} ends") from None
