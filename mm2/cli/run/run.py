"""``mm2 run`` and ``connect-mirror-maker``: one node, in the foreground or as a daemon."""

from __future__ import annotations

import gc
import signal
import sys
from pathlib import Path

from mm2.cli.errors import DONE, USAGE
from mm2.cli.run.daemon import detach, log_file
from mm2.config.grammar.problem_report import write_problems, write_rejection
from mm2.config.load import load
from mm2.config.reload.sources import take


def run(file: Path, *, clusters: tuple[str, ...] = ()) -> int:
    """Run a node until a signal ends it; return the exit code."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the file is about to be read anyway
    taken = take(file, clusters)
    if taken.reading is None:
        write_rejection(file, taken.problems, sys.stderr)
        return USAGE
    write_problems(taken.problems, sys.stderr)
    gc.disable()  # as in mm2.app
    try:
        from mm2.program import node_program  # noqa: PLC0415 takes a second, which a wrong file need not wait for
    finally:
        gc.enable()
    return node_program.run(taken, taken.reading.settings)


def connect_mirror_maker(file: Path, *, daemon: bool = False, clusters: tuple[str, ...] = ()) -> int:
    """Do the same as `run`; with ``daemon`` detached: print the process ID and return."""
    if not daemon:
        return run(file, clusters=clusters)
    loaded = load(file, clusters)
    if loaded.of_node is None:  # printed to the terminal rather than to the log
        write_rejection(file, loaded.problems, sys.stderr)
        return USAGE
    from mm2.config.grammar.environment import Environment  # noqa: PLC0415 only a daemon needs it

    log = log_file(Path.cwd(), Environment())
    pid = detach(log)
    if pid is None:
        return run(file, clusters=clusters)
    print(f"mm2 started as process {pid}, log file {log}")  # noqa: T201 the output of a command
    return DONE
