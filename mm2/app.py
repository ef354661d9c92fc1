"""The composition root: the programs that are installed, and what a node is made of."""

from __future__ import annotations

import sys
from pathlib import Path

from mm2.cli import commands


def main() -> None:
    """The program ``mm2``."""
    sys.exit(commands.execute(commands.mm2_app(), sys.argv[1:]))


def connect_mirror_maker() -> None:
    """The program ``connect-mirror-maker``, called as Java's script is."""
    sys.exit(commands.execute(commands.java_app(), sys.argv[1:]))


def run(file: Path, clusters: tuple[str, ...]) -> int:
    """Run the node of ``file`` until a signal ends it; returns the exit code (contract: Exit codes)."""
    from mm2.program import run as run_node  # noqa: PLC0415 only a node pays for what a node needs

    return run_node(file, clusters)
