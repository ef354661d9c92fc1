"""Errors that end a command with a message and an exit code, never with a traceback."""

from __future__ import annotations

from typing import ClassVar

DONE = 0
FAILED = 1
USAGE = 2
INTERRUPTED = 130
"""Exit codes of every command."""

NOT_EXACT = 3
"""Exit code of ``mm2 translate``: it has answered, and not every answer is exact."""


class CommandError(Exception):
    """The command was understood but failed; the text states what happened and what to check."""

    exit_code: ClassVar[int] = FAILED


class UsageError(CommandError):
    """The command line or the file it names is wrong; the text states what to write instead."""

    exit_code: ClassVar[int] = USAGE
