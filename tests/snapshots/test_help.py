"""The help texts.

``MM2_WRITE_SNAPSHOTS=1 pytest tests/snapshots/test_help.py`` rewrites the snapshots.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mm2.cli.command_table import CHECKER_NAME, COMMANDS, JAVA_NAME
from mm2.cli.commands import checker_app, execute, java_app, mirror1_app, mm2_app
from mm2.cli.mirror1_table import MIRROR1_NAME

SNAPSHOTS = Path(__file__).parent / "help"
PROGRAMS = {JAVA_NAME: java_app, CHECKER_NAME: checker_app, MIRROR1_NAME: mirror1_app}
CALLS = {"mm2": [], **{f"mm2-{name}": [name] for name in COMMANDS}, **{name: [] for name in PROGRAMS}}


@pytest.mark.parametrize(("name", "args"), CALLS.items(), ids=CALLS)
def test_help(name: str, args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(PROGRAMS.get(name, mm2_app)(), [*args, "--help"]) == 0
    text = capsys.readouterr().out
    snapshot = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("MM2_WRITE_SNAPSHOTS"):
        snapshot.write_text(text)
    assert text == snapshot.read_text()
    assert max(map(len, text.splitlines())) <= 100
    assert "\nExample:\n  " in text
    assert "\x1b" not in text
