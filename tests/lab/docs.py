"""The code examples of a page of docs/, so that tests run exactly what the page shows."""

from __future__ import annotations

import re
from pathlib import Path

_BLOCK = re.compile(r"```(?:python|properties)\n# (?P<file>\S+)\n(?P<text>.*?)```", re.DOTALL)


def write_blocks(page: Path, directory: Path) -> list[str]:
    """Write each block of ``page`` that starts with ``# name.py`` or ``# name.properties`` to that file in
    ``directory``. Returns the names."""
    blocks = list(_BLOCK.finditer(page.read_text("utf-8")))
    for block in blocks:
        (directory / block["file"]).write_text(block["text"], "utf-8")
    return [block["file"] for block in blocks]
