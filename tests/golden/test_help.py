"""The help texts, word by word. ``MM2_WRITE_GOLDEN=1 pytest tests/golden/test_help.py`` writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mm2.cli.commands import COMMANDS, JAVA_NAME, execute, java_app, mm2_app

GOLDEN = Path(__file__).parent / "help"
CALLS = {"mm2": [], **{f"mm2-{name}": [name] for name in COMMANDS}, JAVA_NAME: []}


@pytest.mark.parametrize(("name", "words"), CALLS.items(), ids=CALLS)
def test_help(name: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(java_app() if name == JAVA_NAME else mm2_app(), [*words, "--help"]) == 0
    text = "\n".join(line.rstrip() for line in capsys.readouterr().out.rstrip().splitlines()) + "\n"
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("MM2_WRITE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
