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

from mm2.cli.trouble import DONE, FAILED, INTERRUPTED, USAGE, CommandError
from mm2.core.plugins import PluginError

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

CLUSTERS_HELP = """\
No node is asked but the clusters themselves, for 10 s each.
Exit codes: 0 an answer; 1 there is none; 2 FILE or the command line is wrong.
"""

COMMAND_HELP = """\
Any node of the flow takes it, over https or on its own machine, where its file
says mm2.rest.admin = true. The token is read from FILE; for a URL it is taken
from the environment variable MM2_REST_ADMIN_TOKEN.
Exit codes: 0 taken; 1 refused, or no answer; 2 the command line, FILE or the
token is wrong.
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
        help="Show what flows do: their nodes, tasks, topics, rates and lag.\n\n"
        "Every node of a flow shows the whole flow. Where something is copied, it is\n"
        "asked twice within 3 s, to tell how fast.\n\n"
        "FILE needs listeners: the node of this machine is asked over REST.\n"
        "Exit code 1: it does not answer.",
    ),
    "lag": Command(
        function="mm2.cli.lag:lag",
        usage="mm2 lag FILE|URL [--watch | --json]",
        help="Show how far flows and partitions are behind, and when they catch up.\n\n"
        "The worst partitions come first. Where something is behind, the node is asked\n"
        "twice within 3 s, to tell how fast it copies.\n\n"
        "FILE needs listeners: the node is asked over REST.\nExit code 1: it does not answer.",
    ),
    "topics": Command(
        function="mm2.cli.topics:topics",
        usage="mm2 topics FILE|URL [--flow 'A->B'] [--all] [--json]",
        help="Show which topics become which remote topics, and why others do not.\n\n"
        "The node is asked over REST. With FILE the clusters are asked where no node\n"
        "answers, and for --all: each for 10 s.\n"
        "Exit code 1: nobody answers.",
    ),
    "offsets": Command(
        function="mm2.cli.offsets:offsets",
        usage="mm2 offsets FILE [--flow 'A->B'] [--group G ...] [--json]",
        help="Show where consumer groups of the source would go on in the target.\n\n"
        "exact: no record is read again. conservative: some are, none is missed.\n"
        "Where the source does not answer, the positions are those of the last\n"
        "checkpoints.\n"
        f"{CLUSTERS_HELP}",
    ),
    "heartbeats": Command(
        function="mm2.cli.heartbeats:heartbeats",
        usage="mm2 heartbeats FILE [--cluster B] [--json]",
        help="Show which heartbeats arrived where, and which should have.\n\n"
        "late: older than three intervals. missing: the flows of FILE should write them\n"
        f"or carry them along.\n{CLUSTERS_HELP}",
    ),
    "pause": Command(
        function="mm2.cli.flow_commands:pause",
        usage="mm2 pause FILE|URL --flow 'A->B' [--topic T ...]",
        help="Stop copying a flow, or some of its topics, until it is resumed.\n\n"
        f"Offsets stay; the pause outlives restarts and changes of the leader.\n{COMMAND_HELP}",
    ),
    "resume": Command(
        function="mm2.cli.flow_commands:resume",
        usage="mm2 resume FILE|URL --flow 'A->B' [--topic T ...]",
        help="End a pause of a flow, or of some of its topics.\n\n"
        f"Without --topic every pause of the flow ends; copying goes on where it stopped.\n{COMMAND_HELP}",
    ),
    "restart": Command(
        function="mm2.cli.flow_commands:restart",
        usage="mm2 restart FILE|URL TASK --flow 'A->B'",
        help="Stop one task and start it anew, also one that has FAILED.\n\n"
        f"TASK as mm2 status --json calls it: MirrorSourceConnector-0 and so on.\n{COMMAND_HELP}",
    ),
    "refresh": Command(
        function="mm2.cli.flow_commands:refresh",
        usage="mm2 refresh FILE|URL --flow 'A->B'",
        help="Look for topics, groups, configurations and ACLs now.\n\n"
        f"Else that happens at the end of their intervals.\n{COMMAND_HELP}",
    ),
    "version": Command(function="mm2.cli.version:version", usage="mm2 version", help="Print the version."),
}

LISTS = {"--clusters": "cluster alias", "--group": "group", "--topic": "topic"}
"""Options that take every word after them, and what each word is."""

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
    except (CommandError, PluginError) as error:  # the latter: a user's own filter or policy gives no answer
        return _refuse(f"{who}: {error}", error.exit_code if isinstance(error, CommandError) else FAILED)
    except KeyboardInterrupt:  # while the command is being loaded, which takes a second; later cyclopts sees to it
        return INTERRUPTED
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
            option = next((option for option in LISTS if option in words), "--clusters")
            return f"{option} needs at least one {LISTS[option]}."
        case MissingArgumentError(argument=argument) if argument is not None:
            name = argument.name
            for option in words:
                if option in LISTS:
                    return f"{name} is missing: {option} takes every word after it, so {name} goes before it."
            return f"{name} is missing."
        case UnusedCliTokensError(unused_tokens=[first, *_]):
            return f"{first!r} is one word too many."
    return str(error).splitlines()[0]
