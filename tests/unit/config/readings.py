"""Two versions of a small configuration file, for tests of their differences."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mm2.config.keys.update_mode import UpdateMode
from mm2.config.load import load_file
from mm2.config.reload.changes import Change, FileDiff, FlowDiff
from mm2.config.reload.comparison import ParsedConfig, compare
from tests.unit.config.files import CLUSTERS


def read(directory: Path, lines: str = "", *, base: str = CLUSTERS, clusters: tuple[str, ...] = ()) -> ParsedConfig:
    path = directory / "mm2.properties"
    path.write_text(base + lines, "iso-8859-1")
    loaded, file = load_file(path, clusters)
    assert loaded.settings is not None, "\n".join(map(str, loaded.problems))
    assert file is not None
    return ParsedConfig(settings=loaded.settings, file=file)


def diff(directory: Path, old: str, new: str, *, base: str = CLUSTERS, clusters: tuple[str, ...] = ()) -> FileDiff:
    before = read(directory, old, base=base, clusters=clusters)
    return compare(before, read(directory, new, base=base, clusters=clusters))


def flow(found: FileDiff, name: str = "A->B") -> FlowDiff:
    return next(changed for changed in found.changed if str(changed.flow) == name)


def change_lines(changes: Iterable[Change], directory: Path) -> list[str]:
    """Return the changes as lines, without the directory."""
    return [str(change).removeprefix(f"{directory}/") for change in changes]


def update_modes(changes: Iterable[Change]) -> dict[str, UpdateMode]:
    return {change.key: change.update_mode for change in changes}
