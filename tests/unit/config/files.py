"""Small configuration files for tests: the given lines after those of two clusters and a flow."""

from __future__ import annotations

from pathlib import Path

from mm2.config.load import Loaded, load
from mm2.config.settings import FlowSettings, NodeSettings

CLUSTERS = "clusters = A, B\nA.bootstrap.servers = a:9092\nB.bootstrap.servers = b:9092\nA->B.enabled = true\n"


def loaded(directory: Path, lines: str = "", *, clusters: tuple[str, ...] = ()) -> Loaded:
    path = directory / "mm2.properties"
    path.write_text(CLUSTERS + lines, "iso-8859-1")
    return load(path, clusters)


def settings(directory: Path, lines: str = "") -> NodeSettings:
    result = loaded(directory, lines)
    assert result.settings is not None, "\n".join(map(str, result.problems))
    return result.settings


def flow(directory: Path, lines: str = "") -> FlowSettings:
    return settings(directory, lines).flows[0]
