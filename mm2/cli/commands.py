"""The installed programs: they choose a command, import and call its function, and return its exit code.

A function is imported only when its command is used, so that ``mm2 --help`` and ``mm2 check`` do not wait for Spark or
a web server.
"""

from __future__ import annotations

import gc
import os
import pkgutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from io import TextIOWrapper

from mm2.cli.command_parser import HELP, HelpRequested, columns, help_text, parse, usage
from mm2.cli.command_table import CHECKER_COMMAND, CHECKER_NAME, COMMANDS, JAVA_COMMAND, JAVA_NAME
from mm2.cli.errors import DONE, FAILED, INTERRUPTED, USAGE, CommandError, UsageError
from mm2.cli.mirror1_table import MIRROR1_COMMAND, MIRROR1_NAME
from mm2.cli.parameters import CliCommand
from mm2.core.plugins import PluginError
from mm2.core.printable import printable_lines

VERSION = "--version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """An installed program: one ``command``, or several ``commands`` that its first argument chooses from."""

    name: str
    command: CliCommand | None = None
    commands: Mapping[str, CliCommand]

    @property
    def help(self) -> str:
        """The text of its ``--help``."""
        if self.command is not None:
            return help_text(self.name, self.command)
        commands = columns((name, command.summary) for name, command in self.commands.items())
        options = columns([(", ".join(HELP), "Show this help."), (VERSION, "Print the version.")])
        return (
            f"Usage: {self.name} COMMAND ...\n\n"
            "MirrorMaker 2 in Python: replicates topics between Kafka clusters.\n\n"
            f"Commands:\n{commands}\n\nOptions:\n{options}\n\n"
            f"{self.name} COMMAND --help shows the options of a command.\n\n"
            f"Example:\n  {self.name} check mm2.properties\n"
        )


def mm2_app() -> Program:
    """``mm2`` with all its commands."""
    return Program(name="mm2", commands=COMMANDS)


def java_app() -> Program:
    """``connect-mirror-maker``: one command, with the command line of Kafka's script."""
    return Program(name=JAVA_NAME, command=JAVA_COMMAND, commands={})


def checker_app() -> Program:
    """``kafka-consumer-offset-checker``: one command, with the command line of ConsumerOffsetChecker."""
    return Program(name=CHECKER_NAME, command=CHECKER_COMMAND, commands={})


def mirror1_app() -> Program:
    """``kafka-mirror-maker``: one command, with the command line of MirrorMaker 1."""
    return Program(name=MIRROR1_NAME, command=MIRROR1_COMMAND, commands={})


def execute(program: Program, words: Sequence[str]) -> int:
    """Run the command that ``words``, the command line without the program's name, ask for; returns the exit code."""
    if isinstance(sys.stdout, TextIOWrapper):  # names of topics can be any text, and the terminal any encoding
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _execute(program, words)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader, head for example, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains at its exit
        return FAILED
    return code


def _execute(program: Program, words: Sequence[str]) -> int:
    if not words:
        sys.stdout.write(program.help)
        return USAGE
    if program.command is not None:
        return _call(program.name, program.command, words)
    first, rest = words[0], words[1:]
    if first in HELP:
        sys.stdout.write(program.help)
        return DONE
    if first == VERSION:
        first = "version"
    if first not in program.commands:
        return _reject(f"{program.name}: {_unknown(first, program)}", USAGE)
    return _call(f"{program.name} {first}", program.commands[first], rest)


def _call(name: str, command: CliCommand, words: Sequence[str]) -> int:
    """Call the function of a command; ``name`` is how it was called."""
    try:
        arguments, options = parse(command, words)
    except HelpRequested:
        sys.stdout.write(help_text(name, command))
        return DONE
    except UsageError as error:
        return _reject(f"{name}: {error} Usage: {usage(name, command)}", USAGE)
    try:
        code = _load(command.function)(*arguments, **options)
    except CommandError as error:
        return _reject(f"{name}: {error}", error.exit_code)
    except PluginError as error:  # a user's own filter or policy failed
        return _reject(f"{name}: {error}", FAILED)
    return DONE if code is None else code


def _load(function: str) -> Callable[..., int | None]:
    found: Callable[..., int | None] = pkgutil.resolve_name(function)
    if not gc.isenabled():  # mm2.app disabled it for the imports
        gc.freeze()
        gc.enable()
    return found


def _unknown(word: str, program: Program) -> str:
    if word.startswith("-"):
        return f"unknown option {word}. Usage: {program.name} COMMAND ..., see {program.name} --help"
    similar = get_close_matches(word, program.commands, n=1)
    guess = f" Did you mean {similar[0]}?" if similar else ""
    return f"there is no command {word!r}.{guess} Commands: {', '.join(program.commands)}."


def _reject(message: str, code: int) -> int:
    print(printable_lines(message), file=sys.stderr)  # noqa: T201 an error of the command line
    return code
