"""Our commands as users run them: ``.venv/bin/mm2 …``, to the end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0  # seconds for a command that looks and answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a command ended, and what it said."""

    code: int
    stdout: str
    stderr: str


def command_path(name: str) -> str:
    """The installed script beside the Python that runs the tests."""
    return str(Path(sys.executable).with_name(name))


def run(name: str, *arguments: str, env: Mapping[str, str] | None = None, timeout: float = PATIENCE) -> Outcome:
    """Run ``mm2`` or ``connect-mirror-maker`` until it ends, without a terminal. Raises TimeoutExpired."""
    ended = subprocess.run(
        [command_path(name), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        timeout=timeout,
        check=False,
    )
    return Outcome(code=ended.returncode, stdout=ended.stdout, stderr=ended.stderr)
