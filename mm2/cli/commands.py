"""The command line: a table of commands, and how their ends become exit codes (contract: Commands).

A command is a module with a function, and one line in the table. The function's parameters are the command line; it is
imported only when the command is used, so that ``mm2 --help`` and ``mm2 check`` do not wait for Spark or a web server.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from cyclopts import (
    App,
    ConsumeMultipleError,
    CycloptsError,
    Group,
    MissingArgumentError,
    UnknownCommandError,
    UnusedCliTokensError,
)
from rich.console import Console

from mm2.cli.trouble import DONE, FAILED, USAGE, CommandError

HELP_WIDTH = 80
"""Columns of help texts where there is no terminal to fill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """``function`` is an import string; the first line of ``help`` is what the overview shows."""

    function: str
    usage: str
    help: str


NODE_HELP = """\
It replicates the flows of FILE until SIGTERM or SIGINT. The first signal
drains: what is in flight is finished and offsets are stored, within
task.shutdown.graceful.timeout.ms. The second signal ends at once.

Exit codes: 0 drained; 2 FILE or the command line is wrong; 1 fatal at run
time; 130 after a second signal. A cluster that cannot be reached never ends
a node: it keeps trying and says so.
"""

COMMANDS = {
    "run": Command(
        function="mm2.cli.run:run",
        usage="mm2 run FILE [--clusters A B ...]",
        help=f"Run one node in the foreground.\n\n{NODE_HELP}",
    ),
    "check": Command(
        function="mm2.cli.check:check",
        usage="mm2 check FILE [--clusters A B ...]",
        help="Check a file and print every problem.\n\n"
        "Nothing is connected to. Exit codes: 0 no errors, warnings allowed; 2 errors.",
    ),
    "explain": Command(
        function="mm2.cli.explain:explain",
        usage="mm2 explain FILE [--flow 'A->B'] [--clusters A B ...]",
        help="Print the effective settings and the line each one came from.",
    ),
    "status": Command(
        function="mm2.cli.status:status",
        usage="mm2 status FILE|URL [--watch | --json]",
        help="Show what the flows of a running node do.\n\n"
        "FILE needs listeners: the node is asked over REST.\nExit code 1: it does not answer.",
    ),
    "lag": Command(
        function="mm2.cli.lag:lag",
        usage="mm2 lag FILE|URL [--watch]",
        help="Show how far each partition is behind its source, the worst first.\n\n"
        "FILE needs listeners: the node is asked over REST.\nExit code 1: it does not answer.",
    ),
    "version": Command(function="mm2.cli.version:version", usage="mm2 version", help="Print the version."),
}

JAVA_NAME = "connect-mirror-maker"
JAVA_COMMAND = Command(
    function="mm2.cli.run:connect_mirror_maker",
    usage=f"{JAVA_NAME} [-daemon] FILE [--clusters A B ...]",
    help=f"Run one node, called as Java's script is.\n\n{NODE_HELP}\n"
    "With -daemon it detaches, prints its process id, and writes to mirrorMaker.out\n"
    "in LOG_DIR, or in the current directory where that is not set.",
)


def mm2_app() -> App:
    """``mm2`` with all its commands."""
    app = _app(
        "mm2", usage="mm2 COMMAND ...", text="MirrorMaker 2 in Python: replicates topics between Kafka clusters."
    )
    app.help_epilogue = "mm2 COMMAND --help tells more."
    for place, (name, command) in enumerate(COMMANDS.items()):
        usage = f"Usage: {command.usage}\n"
        app.command(command.function, name=name, help=command.help, usage=usage, help_epilogue="", sort_key=place)
    return app


def java_app() -> App:
    """``connect-mirror-maker``: one command, called as Java's script is."""
    app = _app(JAVA_NAME, usage=JAVA_COMMAND.usage, text=JAVA_COMMAND.help)
    module, _, function = JAVA_COMMAND.function.partition(":")
    app.default(getattr(importlib.import_module(module), function))
    app["--help"].show = False  # it would be the only one under a heading "Commands"
    return app


def _app(name: str, *, usage: str, text: str) -> App:
    return App(
        name=name,
        usage=f"Usage: {usage}\n",
        help=text,
        help_format="plaintext",
        help_formatter="plain",  # frames and colours are lost on pipes, logs and screen readers
        version_flags=(),
        group_parameters=Group("Options"),
        result_action="return_value",
    )


def execute(app: App, words: Sequence[str]) -> int:
    """Run the command that ``words`` (the command line without the program's name) ask for; returns the exit code."""
    console = Console(width=None if sys.stdout.isatty() else HELP_WIDTH, highlight=False)
    if not words:
        app.help_print(console=console)
        return USAGE
    who, usage = _asked_for(app, words[0])
    try:
        code: int | None = app(words, console=console, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except CycloptsError as error:
        return _refuse(f"{who}: {_mistake(error, words)} Usage: {usage}", USAGE)
    except CommandError as error:
        return _refuse(f"{who}: {error}", error.exit_code)
    except BrokenPipeError:  # the reader, head for example, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter complains at its exit
        return FAILED
    return DONE if code is None else code


def _asked_for(app: App, word: str) -> tuple[str, str]:
    """The command as it was called, and how it is used."""
    program = app.name[0]
    if program == JAVA_NAME:
        return program, JAVA_COMMAND.usage
    if word in COMMANDS:
        return f"{program} {word}", COMMANDS[word].usage
    return program, f"{program} COMMAND ..., see {program} --help"


def _refuse(sentence: str, code: int) -> int:
    print(sentence, file=sys.stderr)  # noqa: T201 where a program complains
    return code


def _mistake(error: CycloptsError, words: Sequence[str]) -> str:
    """What is wrong with the command line, in a sentence."""
    match error:
        case UnknownCommandError():  # its own text would import every command
            similar = get_close_matches(words[0], COMMANDS, n=1)
            guess = f" Did you mean {similar[0]}?" if similar else ""
            return f"there is no command {words[0]!r}.{guess} Commands: {', '.join(COMMANDS)}."
        case ConsumeMultipleError():
            return "--clusters needs at least one cluster alias."
        case MissingArgumentError(argument=argument) if argument is not None:
            name = argument.name
            if "--clusters" in words:
                return f"{name} is missing: --clusters takes every word after it, so {name} goes before it."
            return f"{name} is missing."
        case UnusedCliTokensError(unused_tokens=[first, *_]):
            return f"{first!r} is one word too many."
    return str(error).splitlines()[0]
