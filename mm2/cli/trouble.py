"""How a command ends when it cannot do what it was asked: a sentence and an exit code, never a traceback."""

from __future__ import annotations

from typing import ClassVar

DONE = 0
FAILED = 1
USAGE = 2
INTERRUPTED = 130
"""Exit codes of every command (contract: Exit codes)."""


class CommandError(Exception):
    """The command was understood and failed; the text says what happened and what to look at."""

    exit_code: ClassVar[int] = FAILED


class UsageError(CommandError):
    """The command line or the file it names is wrong; the text says what to write instead."""

    exit_code: ClassVar[int] = USAGE
