"""What the files of deploy/ need beside them, made as their users make it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.lab.commands import ROOT

COMPOSE = ROOT / "deploy" / "compose"
IN_COMPOSE = "/etc/mm2-certificates"  # of the nodes
GUIDE = ROOT / "docs" / "how-to" / "deploying.md"


def services() -> dict[str, Any]:
    """The services of compose.yaml by name."""
    loaded: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yaml").read_text("utf-8"))["services"]
    return loaded


def make_compose_certificate(directory: Path) -> None:
    """Run the command of Compose's service ``certificates`` in ``directory``, which stands for its volume."""
    service = services()["certificates"]
    subprocess.run([*service["entrypoint"], *service["command"]], check=True, capture_output=True, cwd=directory)


def compose_file(directory: Path) -> str:
    """Make the certificate of Compose in ``directory``, and return the file of its nodes with this directory."""
    make_compose_certificate(directory)
    text = (COMPOSE / "mm2.properties").read_text("utf-8")
    assert text.count(f"{IN_COMPOSE}/") == 2
    return text.replace(f"{IN_COMPOSE}/", f"{directory}/")


def make_node_certificate(directory: Path, names: str = "") -> None:
    """Run the commands of the guide in ``directory``; ``names`` replaces its line ``NAMES=…``."""
    match = re.search(r"^    (NAMES=.*)\n((?:    .*\n)+)", GUIDE.read_text("utf-8"), re.MULTILINE)
    assert match is not None
    script = f"{names or match[1]}\n{match[2]}"
    subprocess.run(["sh", "-euc", script], check=True, capture_output=True, cwd=directory)
