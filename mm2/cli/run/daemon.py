"""Detaching from the terminal, which Java's ``connect-mirror-maker.sh -daemon`` does with nohup."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mm2.cli.errors import CommandError

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
