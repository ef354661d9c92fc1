"""A small file system that a test can fill: a tmpfs, which only root can mount."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self


class SmallDisk:
    """Mounted at ``place`` while the block runs."""

    def __init__(self, place: Path, megabytes: int) -> None:
        self._place = place
        self._megabytes = megabytes

    def grow(self, megabytes: int) -> None:
        """Enlarge it, as an operator would."""
        self._mount(f"remount,size={megabytes}m")

    def fill(self) -> Path:
        """Use up all its space, and return the file to remove for more."""
        filling = self._place / "filling"
        with contextlib.suppress(OSError), filling.open("wb", buffering=0) as file:
            while file.write(bytes(2**16)):
                pass
        return filling

    def __enter__(self) -> Self:
        self._place.mkdir(parents=True, exist_ok=True)
        self._mount(f"size={self._megabytes}m")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        subprocess.run(["umount", "--lazy", str(self._place)], check=True)

    def _mount(self, options: str) -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self._place)], check=True)
