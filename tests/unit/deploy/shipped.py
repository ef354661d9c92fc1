"""The files of deploy/, parsed as by the programs that use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.lab.commands import ROOT

DEPLOY = ROOT / "deploy"
SYSTEMD = DEPLOY / "systemd"
CONTAINER = DEPLOY / "container"
COMPOSE = DEPLOY / "compose"
KUBERNETES = DEPLOY / "kubernetes"
MONITORING = DEPLOY / "monitoring"


def read_yaml(path: Path) -> Any:
    """Return the only document of a YAML file."""
    return yaml.safe_load(path.read_text("utf-8"))


def seconds(text: str) -> float:
    """Return a duration in the notation of systemd and Compose, of one unit: 30s, 2m."""
    return float(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]
