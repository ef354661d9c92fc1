"""The files that a configuration is read from, and whether they still hold what was read.

Besides the properties file these are the files that config providers look into, and the certificates and keys that
``ssl.….location`` names. They are compared by their contents: that sees every way in which a file can change (written
in place, renamed over as editors do, a symbolic link swapped as Kubernetes does with ConfigMaps and Secrets), on every
file system, also where times are whole seconds, and it is not fooled by ``touch``. They are a few kilobytes.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mm2.config import providers
from mm2.config.comparison import Reading
from mm2.config.load import File, load_file
from mm2.config.problems import Problem

_LOCATIONS = ("ssl.truststore.location", "ssl.keystore.location")

DIGITS = 16
"""Of a file's digest: enough to tell files apart, and it fits into a line."""

Signature = Mapping[Path, str]
"""What stands in each file, in one word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One time of reading. ``reading`` is None where there is an error among ``problems``. ``signature``: what the
    files held at that time; a file that was changed meanwhile looks changed the next time."""

    path: Path
    clusters: tuple[str, ...]
    reading: Reading | None
    problems: tuple[Problem, ...]
    signature: Signature

    @property
    def digest(self) -> str:
        """The contents of the file itself in one word, as ``sha256sum`` tells them, cut short."""
        return self.signature[self.path][:DIGITS]


def take(path: Path, clusters: Sequence[str] = (), also: Iterable[Path] = ()) -> Taken:
    """Read ``path`` as `mm2.config.load.load` does. ``also``: files that it was read from before, which are of interest
    still if it cannot be read now."""
    before = sign((path, *also))
    loaded, file = load_file(path, clusters)
    named = () if file is None else named_files(file)
    reading = None
    if loaded.settings is not None and file is not None:
        reading = Reading(settings=loaded.settings, file=file)
        before = {kept: word for kept, word in before.items() if kept == path or kept in named}
    return Taken(
        path=path,
        clusters=tuple(clusters),
        reading=reading,
        problems=loaded.problems,
        signature={**sign(set(named) - before.keys()), **before},
    )


def named_files(file: File) -> tuple[Path, ...]:
    """The other files that ``file`` takes something from, whether they are there or not."""
    entries = {name: value.entry for name, value in file.properties.items() if value.entry is not None}
    stores = {
        Path(entry.value.strip())
        for name, entry in entries.items()
        if name.endswith(_LOCATIONS) and entry.value.strip() and not entry.broken
    }
    return tuple(sorted(stores | providers.files(entries)))


def sign(paths: Iterable[Path]) -> Signature:
    """What stands in ``paths`` now. Anything but a regular file is only told by its kind: reading a pipe would empty
    it."""
    return {path: _sign(path) for path in paths}


def _sign(path: Path) -> str:
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            return f"no file: {stat.S_IFMT(mode):o}"
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, ValueError) as error:  # ValueError: no name that a file can have
        return f"cannot be read: {type(error).__name__}"
