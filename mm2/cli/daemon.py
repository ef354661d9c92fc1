"""Becoming a daemon, as Java's ``connect-mirror-maker.sh -daemon`` does with nohup, done by the process itself."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mm2.cli.trouble import CommandError
from mm2.config.environment import Environment

LOG_NAME = "mirrorMaker.out"
"""As Java's script calls it."""


def log_file(directory: Path, environment: Environment) -> Path:
    """Where a daemon writes: LOG_DIR as in Java's script, else ``directory``."""
    return (environment.log_dir or directory) / LOG_NAME


def detach(log: Path) -> int | None:
    """Leave the terminal: from here on the program goes on in a new process.

    Returns None there, and that process's id in the process that called. The new one has its own session, no terminal
    to come back to, and appends its output to ``log``; the directory stays, so that paths still mean the same. Raises
    CommandError when ``log`` cannot be written. Call it before there are threads: they do not survive a fork.
    """
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError as error:
        raise CommandError(
            f"cannot write {log}: {error.strerror}. Set LOG_DIR to a directory that can be written"
        ) from error
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.close(reader)
        os.setsid()
        if (daemon := os.fork()) != 0:  # only a session's leader could get a terminal again, and it ends here
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
