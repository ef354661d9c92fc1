from __future__ import annotations

import json

import pytest
from rich.console import Group
from rich.text import Text

from mm2.cli.commands import Program, execute
from mm2.cli.errors import CommandError
from mm2.cli.parameters import FILE, CliCommand
from mm2.cli.terminal.screen import print_json, show_once

HOSTILE = "\x1b]0;title\x1b\\\x9b2J\u202eorders"
SHOWN = r"\x1b]0;title\x1b\\x9b2J\u202eorders"


def test_text_of_others_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show_once(lambda: Group(Text(f"  ! {HOSTILE}\nnext", style="red"), HOSTILE))
    assert capsys.readouterr().out == f"  ! {SHOWN}\nnext\n{SHOWN}\n"


def test_json_for_terminals(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"topic": HOSTILE})
    out = capsys.readouterr().out
    assert all(char.isprintable() or char == "\n" for char in out)
    assert json.loads(out) == {"topic": HOSTILE}


def test_errors_of_others(capsys: pytest.CaptureFixture[str]) -> None:
    command = CliCommand(function=f"{__name__}:fail", help="", example="", parameters=(FILE,))
    assert execute(Program(name="mm2", command=command, commands={}), ["FILE"]) == 1
    assert capsys.readouterr().err == f"mm2: {SHOWN}\n"


def fail(*_words: str) -> None:
    raise CommandError(HOSTILE)
