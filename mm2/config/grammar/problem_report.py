"""Printing of a file's problems, in the form of `mm2.config.grammar.problems`."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from mm2.config.grammar.problems import COPY_INDENT, Problem
from mm2.core.printable import printable_lines

INDENT = 4
NARROWEST = 40
"""Columns. On a narrower terminal lines are not wrapped further, or paths and keys would fall apart."""


def write_problems(problems: Sequence[Problem], out: TextIO) -> None:
    """Write ``problems`` to ``out``, each followed by its fix; wrapped to the terminal if ``out`` is one.

    Files and pipes get one line for the problem and one for the fix. Text that a user copies, a command or a line for
    the file, is never wrapped: its parts would be separate commands or keys.
    """
    width = _width(out)
    for problem in problems:
        print(_wrapped(problem.headline, width, first="", rest=" " * INDENT), file=out)
        for line in problem.excerpt:
            print(" " * INDENT + printable_lines(line), file=out)
        prefix = " " * INDENT + "fix: "
        for line in problem.fix_lines:
            columns = None if _is_copied(line) else width
            print(_wrapped(line, columns, first=prefix, rest=" " * 2 * INDENT), file=out)
            prefix = " " * len(prefix)


def write_rejection(file: Path, problems: Sequence[Problem], out: TextIO) -> None:
    """Write the problems of a file that cannot be used, and how many they are."""
    write_problems(problems, out)
    print(f"{file}: {summary(problems)}", file=out)


def summary(problems: Sequence[Problem]) -> str:
    """Return ``2 errors, 1 warning``."""
    warnings = sum(problem.is_warning for problem in problems)
    return f"{counted(len(problems) - warnings, 'error')}, {counted(warnings, 'warning')}"


def counted(number: int, one: str, many: str = "") -> str:
    """Return ``1 error`` or ``2 errors``; ``many`` is the plural if it is not ``one`` with an s."""
    return f"{number} {one}" if number == 1 else f"{number} {many or one + 's'}"


def _is_copied(line: str) -> bool:
    return line.startswith(COPY_INDENT) or " = " in line


def _width(out: TextIO) -> int | None:
    if not out.isatty():
        return None
    return max(NARROWEST, shutil.get_terminal_size().columns)


def _wrapped(text: str, width: int | None, *, first: str, rest: str) -> str:
    if width is None:
        return first + text
    return textwrap.fill(
        text,
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
