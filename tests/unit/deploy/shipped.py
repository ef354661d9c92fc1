"""What deploy/ ships, read as the programs that use it read it."""

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
    """The only document of a YAML file."""
    return yaml.safe_load(path.read_text("utf-8"))


def seconds(text: str) -> float:
    """A time as systemd and Compose write it, of one unit: 30s, 2m."""
    return float(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]
