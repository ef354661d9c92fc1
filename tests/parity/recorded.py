"""Results of runs of the real Java MirrorMaker 2 that are stored in ``tests/golden``, for tests that run without it."""

from __future__ import annotations

import json

from tests.lab import jars
from tests.lab.commands import ROOT


def agrees(name: str, found: object, *, write: bool) -> None:
    """Assert that ``found``, which consists of JSON's types, is what is stored, or store it."""
    path = ROOT / "tests" / "golden" / f"java-{jars.KAFKA_4}-{name}.json"
    if write:
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
    assert json.loads(json.dumps(found)) == json.loads(path.read_text("utf-8"))
