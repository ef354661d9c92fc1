"""Declarations of commands, and of the arguments and options that several commands have.

They are plain data, so that ``mm2 COMMAND --help`` is printed without importing the command.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mm2.cli.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """An argument (``FILE``) or an option (``--flow``) of a command.

    ``names``: an option can have several. ``help``: one line. ``value``: what help shows for an option's value; an
    option without one is a switch. ``noun``: what each value is; an option with a noun takes all words up to the next
    option. ``keyword``: the function's parameter, if it is not called like the option.
    """

    names: tuple[str, ...]
    help: str
    value: str = ""
    noun: str = ""
    required: bool = False
    keyword: str = ""
    convert: Callable[[str], object] = str

    @property
    def name(self) -> str:
        """The first of its names."""
        return self.names[0]

    @property
    def is_option(self) -> bool:
        """Whether it is an option; otherwise it is an argument."""
        return self.name.startswith("-")

    @property
    def function_parameter(self) -> str:
        """The keyword that passes an option to the function."""
        return self.keyword or self.name.lstrip("-").replace("-", "_")

    @property
    def usage(self) -> str:
        """How it is written on the command line."""
        text = f"{self.name} {self.value}".rstrip()
        return text if self.required else f"[{text}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class CliCommand:
    """A command. ``function`` is an import string; it gets arguments by position and given options by keyword.

    The overview shows the first line of ``help``. ``example`` is a command line that works as typed. ``java_options``:
    it takes options in the forms of `mm2.cli.command_parser`.
    """

    function: str
    help: str
    example: str
    parameters: tuple[Parameter, ...] = ()
    java_options: bool = False

    @property
    def summary(self) -> str:
        """The first line of the help."""
        return self.help.partition("\n")[0]


FILE = Parameter(names=("FILE",), help="The node's properties file.", required=True, convert=Path)
NODE = Parameter(names=("FILE|URL",), help="The node's properties file, or its URL.", required=True)
CLUSTERS = Parameter(
    names=("--clusters",), value="A B ...", noun="cluster alias", help="Only flows into these clusters."
)
FLOW = Parameter(names=("--flow",), value="'A->B'", help="Only this flow.")
CHOSEN_FLOW = Parameter(names=("--flow",), value="'A->B'", help="The flow; can be omitted if only one is enabled.")
COMMANDED_FLOW = Parameter(names=("--flow",), value="'A->B'", help="The flow.", required=True)
TOPICS = Parameter(names=("--topic",), value="T ...", noun="topic", help="Only these topics, by source topic name.")
LOST_TOPIC = Parameter(names=("--topic",), value="T", help="The topic, by its source topic name.", required=True)
LOST_PARTITION = Parameter(names=("--partition",), value="P", help="The partition.", required=True)
ONE_PARTITION = Parameter(names=("--partition",), value="P", help="One partition of the topic, in detail.")
REASON = Parameter(names=("--reason",), value="TEXT", help="Why: in audit records, pauses and accepted losses.")
WATCH = Parameter(names=("--watch",), help="Refresh every 2 s until Ctrl-C. Not with --json.")
JSON = Parameter(names=("--json",), help="Print JSON.")
STRICT = Parameter(names=("--strict",), help="Warnings are errors.")


def whole_number(option: str, text: str, what: str) -> int:
    """Return the value of an option. Raises UsageError if it is not ``what``."""
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"{option} {text} is not {what}: write for example {option} 0")
    return int(text)
