"""A page of docs/ that a test executes: its commands in order, and the log lines it shows."""

from __future__ import annotations

import re
from pathlib import Path

from tests.lab.commands import ROOT
from tests.lab.docs import shell_blocks

MIGRATING = ROOT / "docs/how-to/migrating.md"

_QUOTED = re.compile(r"^ {7}(\S->\S: .*)$", re.MULTILINE)


def commands(page: Path) -> list[str]:
    """Every line of every ``sh`` block."""
    return [line.strip() for block in shell_blocks(page) for line in block.splitlines() if line.strip()]


def promised_lines(page: Path) -> list[str]:
    """Return the starts of the log lines that the page shows."""
    return _QUOTED.findall(page.read_text())
