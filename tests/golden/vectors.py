"""Results of the real Java MirrorMaker 2 4.3.1, stored with the tests (created by java/GoldenVectors.java)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def java_vectors(name: str) -> Any:
    """Return the parsed file ``java-4.3.1-<name>.json``."""
    return json.loads((HERE / f"java-4.3.1-{name}.json").read_text())
