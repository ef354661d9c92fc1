"""docs/runbooks has a page for each alert, whose commands exist."""

from __future__ import annotations

import re
import shlex
from itertools import takewhile
from typing import Any

import pytest

from mm2.cli.command_table import COMMANDS
from tests.lab.commands import ROOT
from tests.unit.deploy.shipped import MONITORING, read_yaml

PAGES = ROOT / "docs/runbooks"
SECTIONS = ["Meaning", "Impact", "First three commands", "When it ends by itself", "When to escalate"]
CONSOLE = re.compile(r"^ +```console\n(?P<lines>.*?)^ +```$", re.MULTILINE | re.DOTALL)
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in read_yaml(MONITORING / "alerts.yml")["groups"] for rule in group["rules"]
}


def commands(page: str) -> list[list[str]]:
    """Return the commands of a page, each with the lines of its output."""
    found = []
    for block in CONSOLE.finditer((PAGES / f"{page}.md").read_text("utf-8")):
        command, *output = [line.strip() for line in block["lines"].splitlines()]
        assert command.startswith("$ ")
        found.append([command.removeprefix("$ "), *output])
    return found


def test_each_alert_has_a_page_and_each_page_an_alert() -> None:
    pages = {page.stem for page in PAGES.glob("*.md")} - {"index"}
    assert pages == set(RULES)
    listed = (PAGES / "index.md").read_text("utf-8")
    assert re.findall(r"\[(MM2\w+)\]\(MM2\w+\.md\)", listed) == sorted(RULES)


@pytest.mark.parametrize("name", RULES)
def test_a_page_has_all_sections(name: str) -> None:
    text = (PAGES / f"{name}.md").read_text("utf-8")
    assert text.startswith(f"# {name}\n\nSeverity: {RULES[name]['labels']['severity']}.\n")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS
    assert all(part.strip() for part in re.split(r"^## .+$", text, flags=re.MULTILINE)[1:])
    assert RULES[name]["annotations"]["runbook_url"] == f"docs/runbooks/{name}.md"


@pytest.mark.parametrize("name", RULES)
def test_a_page_has_three_commands_that_exist(name: str) -> None:
    found = commands(name)
    assert len(found) == 3
    for command, *_ in found:
        words = list(takewhile(lambda word: word != "|", shlex.split(command, comments=True)))
        if words[0] == "mm2":
            options = {option for parameter in COMMANDS[words[1]].parameters for option in parameter.names}
            assert {word for word in words if word.startswith("--")} <= options
