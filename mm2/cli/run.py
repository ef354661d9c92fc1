"""``mm2 run`` and ``connect-mirror-maker``: one node, in the foreground or as a daemon."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from mm2 import app
from mm2.cli.daemon import detach, log_file
from mm2.cli.parameters import Clusters, File
from mm2.cli.trouble import DONE, USAGE
from mm2.config.environment import Environment
from mm2.config.load import load


def run(file: File, /, *, clusters: Clusters = ()) -> int:
    """Run a node until it is told to end; returns the exit code."""
    return app.run(file, clusters)


def connect_mirror_maker(
    file: File,
    /,
    *,
    daemon: Annotated[
        bool, Parameter(name=("-daemon", "--daemon"), negative=(), show_default=False, help="Detach from the terminal.")
    ] = False,
    clusters: Clusters = (),
) -> int:
    """`run`, or the same detached: then it returns at once and prints the process id."""
    if not daemon:
        return app.run(file, clusters)
    loaded = load(file, clusters)
    if loaded.settings is None:  # said here, where somebody reads it, rather than in the log
        print(*loaded.problems, sep="\n", file=sys.stderr)  # noqa: T201 a command's answer
        return USAGE
    log = log_file(Path.cwd(), Environment())
    pid = detach(log)
    if pid is None:
        return app.run(file, clusters)
    print(f"mm2 runs as process {pid} and writes to {log}")  # noqa: T201 a command's answer
    return DONE
