"""``mm2 check``: every problem of a file, without connecting to anything."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from mm2.cli.parameters import Clusters, File
from mm2.cli.trouble import DONE, USAGE
from mm2.config.load import load
from mm2.config.settings import FlowSettings


def check(file: File, /, *, clusters: Clusters = ()) -> int:
    """Print every problem; returns the exit code."""
    return check_file(file, clusters, sys.stdout)


def check_file(path: Path, clusters: Sequence[str], out: TextIO) -> int:
    """Write the problems of ``path`` to ``out``, one a line, and what would run where none of them is an error."""
    loaded = load(path, clusters)
    for problem in loaded.problems:
        print(problem, file=out)
    if loaded.settings is None:
        return USAGE
    flows = ", ".join(map(_flow, loaded.settings.flows))
    print(f"ok: {flows}", file=out)
    return DONE


def _flow(flow: FlowSettings) -> str:
    if flow.enabled:
        return str(flow.flow)
    return f"{flow.flow} (heartbeats only)" if flow.heartbeats else f"{flow.flow} (idle)"
