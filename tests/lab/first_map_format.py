"""The exact offset map of the last release without packed ranges, loaded from git, to read and write beside ours."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from tests.lab.commands import ROOT
from tests.lab.previous_version import show

COMMIT = "b80f432"
PACKAGE = "mm2.core.offsets"
MODULES = ("exact_offset_records", "exact_offset_journal", "exact_offsets")


@dataclass(frozen=True, slots=True)
class FirstFormat:
    """Its modules."""

    records: Any
    journal: Any
    offsets: Any

    def partition(self) -> Any:
        """Return its `PartitionOffsets`."""
        return self.offsets.PartitionOffsets()

    def fold(self, topic: Iterable[tuple[bytes, bytes]], partition: Any) -> Any:
        """Apply records of the topic to ``partition``."""
        for key, value in topic:
            partition.apply(self.records.decode_segment(key, value))
        return partition


def first_format() -> FirstFormat | None:
    """Return the release's modules; None if the clone does not have its commit."""
    loaded = []
    for name in MODULES:
        source = show(ROOT, f"{COMMIT}:{PACKAGE.replace('.', '/')}/{name}.py")
        if source is None:
            return None
        for other in MODULES:
            source = source.replace(f"from {PACKAGE}.{other} ", f"from {_alias(other)} ")
        module = ModuleType(_alias(name))
        sys.modules[module.__name__] = module
        exec(compile(source, f"{name}.py of {COMMIT}", "exec"), module.__dict__)
        loaded.append(module)
    return FirstFormat(*loaded)


def _alias(module: str) -> str:
    return f"first_format_{module}"
