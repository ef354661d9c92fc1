"""The files that a configuration is read from, and detection of changes in them.

Besides the properties file these are the files that config providers read, the certificates and keys that
``ssl.….location`` names, the tokens, assertions and keys of OAuth, the keytabs, ticket caches and other files of
logins, and the queries that ``mm2.sql.….file`` names. They are compared by content. That detects every kind of change
(written in place, replaced by rename as editors do, a symbolic link swapped as Kubernetes does with ConfigMaps and
Secrets) on every file system, including those with timestamps of whole seconds, and ignores ``touch``. They are a few
kilobytes.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mm2.config.grammar import providers
from mm2.config.grammar.problems import Problem
from mm2.config.keys import sql_keys
from mm2.config.load import File, Loaded, load_file
from mm2.config.reload.comparison import ParsedConfig
from mm2.config.security.kerberos.files import login_files
from mm2.config.security.oauth.files import oauth_files
from mm2.config.sql.query_source import query_path

_LOCATIONS = ("ssl.truststore.location", "ssl.keystore.location")

DIGITS = 16
"""Length of a shown digest: enough to distinguish files, and short enough for a line."""

Signature = Mapping[Path, str]
"""Digest of each file's content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Result of one load. ``reading`` is None if ``problems`` contain an error that is not temporary. ``signature``:
    the digests from before the load, so that a file that changes during the load counts as changed."""

    path: Path
    clusters: tuple[str, ...]
    reading: ParsedConfig | None
    problems: tuple[Problem, ...]
    signature: Signature

    @property
    def waits_for(self) -> frozenset[str | None]:
        """The keys with errors that are temporary."""
        return frozenset(problem.key for problem in self.problems if problem.is_temporary)

    @property
    def digest(self) -> str:
        """The start of the properties file's ``sha256sum``."""
        return self.signature[self.path][:DIGITS]


LoadFile = Callable[[Path, Sequence[str]], tuple[Loaded, File | None]]
"""Loads a configuration file (`load_file`)."""


def take(path: Path, clusters: Sequence[str] = (), also: Iterable[Path] = (), *, load: LoadFile = load_file) -> Taken:
    """Read ``path`` as `mm2.config.load.load` does. ``also``: files of earlier loads, which remain watched if the file
    cannot be read now."""
    before = sign((path, *also))
    loaded, file = load(path, clusters)
    named = () if file is None else named_files(file, path.parent)
    reading = None
    if loaded.of_node is not None and file is not None:
        reading = ParsedConfig(settings=loaded.of_node, file=file)
        before = {kept: word for kept, word in before.items() if kept == path or kept in named}
    return Taken(
        path=path,
        clusters=tuple(clusters),
        reading=reading,
        problems=loaded.problems,
        signature={**sign(set(named) - before.keys()), **before},
    )


def named_files(file: File, directory: Path) -> tuple[Path, ...]:
    """Return the other files that ``file``, in ``directory``, is read from, including missing ones."""
    entries = {name: value.entry for name, value in file.properties.items() if value.entry is not None}
    stores = {
        Path(entry.value.strip())
        for name, entry in entries.items()
        if name.endswith(_LOCATIONS) and entry.value.strip() and not entry.broken
    }
    queries = {
        query_path(value, directory)
        for name, value in file.properties.items()
        if sql_keys.is_sql_file(name) and value.text.strip()
    }
    tokens = {path for name, entry in entries.items() if not entry.broken for path in oauth_files(name, entry.value)}
    logins = login_files(file.properties)
    return tuple(sorted(stores | queries | tokens | logins | providers.files(entries)))


def sign(paths: Iterable[Path]) -> Signature:
    """Return the digests of ``paths``. Only the type counts for anything but a regular file: reading a pipe would empty
    it."""
    return {path: _sign(path) for path in paths}


def _sign(path: Path) -> str:
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            return f"no file: {stat.S_IFMT(mode):o}"
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, ValueError) as error:  # ValueError: not a valid file name
        return f"cannot be read: {type(error).__name__}"
