"""Two readings of a small file, for tests of what is different between them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mm2.config.changes import Change, FileDiff, FlowDiff
from mm2.config.comparison import Reading, compare
from mm2.config.load import load_file
from mm2.config.reach import Reach
from tests.unit.config.files import CLUSTERS


def read(directory: Path, lines: str = "", *, base: str = CLUSTERS, clusters: tuple[str, ...] = ()) -> Reading:
    path = directory / "mm2.properties"
    path.write_text(base + lines, "iso-8859-1")
    loaded, file = load_file(path, clusters)
    assert loaded.settings is not None, "\n".join(map(str, loaded.problems))
    assert file is not None
    return Reading(settings=loaded.settings, file=file)


def diff(directory: Path, old: str, new: str, *, base: str = CLUSTERS, clusters: tuple[str, ...] = ()) -> FileDiff:
    before = read(directory, old, base=base, clusters=clusters)
    return compare(before, read(directory, new, base=base, clusters=clusters))


def flow(found: FileDiff, name: str = "A->B") -> FlowDiff:
    return next(changed for changed in found.changed if str(changed.flow) == name)


def said(changes: Iterable[Change], directory: Path) -> list[str]:
    """The changes as lines, without the directory."""
    return [str(change).removeprefix(f"{directory}/") for change in changes]


def reaches(changes: Iterable[Change]) -> dict[str, Reach]:
    return {change.key: change.reach for change in changes}
