"""The code examples and commands of a page of docs/, so that tests run exactly what the page shows."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.lab.commands import run_within

_FILE = re.compile(r"```(?:python|properties)\n# (?P<file>\S+)\n(?P<text>.*?)```", re.DOTALL)
_SHELL = re.compile(r"^ *```sh\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


def write_blocks(page: Path, directory: Path) -> list[str]:
    """Write each block of ``page`` that starts with ``# name.py`` or ``# name.properties`` to that file in
    ``directory``. Returns the names."""
    blocks = list(_FILE.finditer(page.read_text("utf-8")))
    for block in blocks:
        (directory / block["file"]).write_text(block["text"], "utf-8")
    return [block["file"] for block in blocks]


def shell_blocks(page: Path) -> list[str]:
    """Return the commands of each ``sh`` block."""
    return _SHELL.findall(page.read_text("utf-8"))


def next_with(blocks: Iterator[str], part: str) -> str:
    """Return the next block, which must contain ``part``, so that the test runs the expected commands."""
    block = next(blocks)
    assert part in block
    return block


def run_block(commands: str, directory: Path, env: Mapping[str, str], *, timeout: float) -> str:
    """Run the commands of a block in a shell; all must succeed. Returns what they print to standard output.

    Raises GaveUp if they have not ended after ``timeout`` seconds.
    """
    ended = run_within(
        timeout,
        ["sh", "-e", "-c", commands],
        cwd=directory,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, f"{commands}\n{ended.stdout}{ended.stderr}"
    return str(ended.stdout)
