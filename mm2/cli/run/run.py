"""``mm2 run`` and ``connect-mirror-maker``: one node, in the foreground or as a daemon."""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mm2.cli.errors import DONE, USAGE, CommandError
from mm2.config.grammar.problem_report import write_problems, write_rejection
from mm2.config.reload.sources import LoadedConfig, take

if TYPE_CHECKING:
    from mm2.config.grammar.environment import Environment


LOG_NAME = "mirrorMaker.out"
"""The name that Java's script uses."""


def log_file(directory: Path, environment: Environment) -> Path:
    """Return the file a daemon writes to: in LOG_DIR, as with Java's script, or in ``directory`` if it is not set."""
    return (environment.log_dir or directory) / LOG_NAME


def detach(log: Path) -> int | None:
    """Detach from the terminal and continue in a new process.

    Returns None in the new process, and its process ID in the calling one. The new process has its own session without
    a terminal and appends its output to ``log``, which other users cannot read: errors can quote records. It keeps the
    working directory, so that relative paths stay valid.
    Raises CommandError if ``log`` cannot be written. Call it before any thread starts: threads do not survive a fork.
    """
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    except OSError as error:
        raise CommandError(f"cannot write {log}: {error.strerror}. Set LOG_DIR to a writable directory") from error
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.close(reader)
        os.setsid()
        if (daemon := os.fork()) != 0:  # only a session leader can acquire a terminal again, and it ends here
            os.write(writer, str(daemon).encode())
            os._exit(0)
        os.close(writer)
        _redirect(output)
        return None
    os.close(writer)
    os.close(output)
    with os.fdopen(reader) as answer:
        pid = int(answer.read())
    os.waitpid(child, 0)
    return pid


def _redirect(output: int) -> None:
    nowhere = os.open(os.devnull, os.O_RDONLY)
    for source, standard in ((nowhere, 0), (output, 1), (output, 2)):
        os.dup2(source, standard)
    os.close(nowhere)
    os.close(output)


def run(file: Path, *, clusters: tuple[str, ...] = ()) -> int:
    """Run a node until a signal ends it; return the exit code."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the file is about to be read anyway
    taken, remark = _take(file, clusters)
    if taken.reading is None:
        return _reject(taken, remark)
    write_problems(taken.problems, sys.stderr)
    if remark:
        print(remark, file=sys.stderr)  # noqa: T201 as the problems
    gc.disable()  # as in mm2.app
    try:
        from mm2.program import node_program  # noqa: PLC0415 takes a second, which a wrong file need not wait for
    finally:
        gc.enable()
    return node_program.run(taken, taken.reading.settings)


def _take(file: Path, clusters: tuple[str, ...]) -> tuple[LoadedConfig, str]:
    """Read ``file`` for a start. If it has near misses of keys, Java can have ignored them, too; return what is known
    about that."""
    taken = take(file, clusters)
    if taken.reading is not None or not taken.near_misses:
        return taken, ""
    from mm2.cli.run.java_takeover import taken_as_java  # noqa: PLC0415 connects to clusters, which others need not

    return taken_as_java(taken)


def _reject(taken: LoadedConfig, remark: str) -> int:
    write_rejection(taken.path, taken.problems, sys.stderr)
    if remark:
        print(remark, file=sys.stderr)  # noqa: T201 as the problems
    return USAGE


def connect_mirror_maker(file: Path, *, daemon: bool = False, clusters: tuple[str, ...] = ()) -> int:
    """Do the same as `run`; with ``daemon`` detached: print the process ID and return."""
    if not daemon:
        return run(file, clusters=clusters)
    taken, remark = _take(file, clusters)
    if taken.reading is None:  # printed to the terminal rather than to the log
        return _reject(taken, remark)
    from mm2.config.grammar.environment import Environment  # noqa: PLC0415 only a daemon needs it

    log = log_file(Path.cwd(), Environment())
    pid = detach(log)
    if pid is None:
        return run(file, clusters=clusters)
    print(f"mm2 started as process {pid}, log file {log}")  # noqa: T201 the output of a command
    return DONE
