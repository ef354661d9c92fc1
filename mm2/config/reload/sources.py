"""The files that a configuration is read from, and detection of changes in them.

Besides the properties file these are the files that config providers read, the certificates and keys that
``ssl.….location`` names, the tokens, assertions and keys of OAuth, the keytabs, ticket caches and other files of
logins, the queries that ``mm2.sql.….file`` names, and the tokens of ``mm2.rest.tokens.file``. They are compared by
content. That detects every kind of change (written in place, replaced by rename as editors do, a symbolic link swapped
as Kubernetes does with ConfigMaps and Secrets) on every file system, including those with timestamps of whole seconds,
and ignores ``touch``. They are a few kilobytes.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mm2.config.grammar import providers
from mm2.config.grammar.problems import Problem
from mm2.config.grammar.values import Value
from mm2.config.keys import sql_keys
from mm2.config.load import NO_LINES, File, Loaded, load_file
from mm2.config.reload.comparison import ParsedConfig
from mm2.config.security import jaas
from mm2.config.security.kerberos.krb5_files import Krb5ConfError, all_files, read_krb5_conf
from mm2.config.security.kerberos.krb5_module import MODULES, OptionsError, read_options
from mm2.config.security.oauth.assertion import FILE, KEY_FILE, TEMPLATE
from mm2.config.security.oauth.endpoint import URL, token_file
from mm2.config.security.rest_tokens import TOKENS_FILE, tokens_path
from mm2.config.security.sasl_properties import JAAS, jaas_file, read_jaas_file
from mm2.config.sql.query_source import query_path

_PROTOCOL, _JAAS = "security.protocol", "sasl.jaas.config"


def login_files(properties: Mapping[str, Value]) -> frozenset[Path]:
    """Return the files of all clients with ``properties``, those of the whole file, including missing ones."""
    if not any(name.endswith(_PROTOCOL) and "SASL" in value.text.upper() for name, value in properties.items()):
        return frozenset()
    file = jaas_file()
    kerberos = [module for module in _modules(properties, file) if module.name in MODULES]
    found = set(_of_modules(kerberos))
    if kerberos:
        found |= all_files()
    return frozenset(found if file is None else found | {file})


def _modules(properties: Mapping[str, Value], file: Path | None) -> Iterator[jaas.LoginModule]:
    for name, value in properties.items():
        if name.endswith(_JAAS) and value.entry is not None and not value.entry.broken:
            try:
                yield jaas.parse(value.text)
            except jaas.JaasError:
                continue  # an error of the file
    if file is not None:
        try:
            yield from read_jaas_file(file)
        except jaas.JaasError:
            return  # the same


def _of_modules(modules: Iterable[jaas.LoginModule]) -> Iterator[Path]:
    for module in modules:
        try:
            options = read_options(module, _krb5_conf())
        except OptionsError:
            continue
        yield from (Path(path) for path in (options.keytab, options.ticket_cache) if path is not None)


def _krb5_conf() -> str | None:
    try:
        return read_krb5_conf()
    except Krb5ConfError:
        return None


_STORES = ("ssl.truststore.location", "ssl.keystore.location")


def oauth_files(key: str, text: str) -> Iterator[Path]:
    """Return the files that ``key`` of the file names, at any level, such as ``A.sasl.oauthbearer.assertion.file``."""
    if key.endswith((FILE, KEY_FILE, TEMPLATE)) and text.strip():
        yield Path(text.strip())
    elif key.endswith(URL) and (path := token_file(text)) is not None:
        yield path
    elif key.endswith(JAAS):
        yield from _stores(text)


def _stores(text: str) -> Iterator[Path]:
    try:
        options = jaas.parse(text).options
    except jaas.JaasError:  # is reported where the login is read
        return
    yield from (Path(options[name].strip()) for name in _STORES if options.get(name, "").strip())


_LOCATIONS = ("ssl.truststore.location", "ssl.keystore.location")

DIGITS = 16
"""Length of a shown digest: enough to distinguish files, and short enough for a line."""

Signature = Mapping[Path, str]
"""Digest of each file's content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedConfig:
    """Result of one load. ``reading`` is None if ``problems`` contain an error that is not temporary. ``signature``:
    the digests from before the load, so that a file that changes during the load counts as changed. ``accepted``: lines
    that were accepted (`NearMissRule`). ``near_misses``: those that were not, and can be."""

    path: Path
    clusters: tuple[str, ...]
    reading: ParsedConfig | None
    problems: tuple[Problem, ...]
    signature: Signature
    accepted: Mapping[str, str] = field(default_factory=dict)
    near_misses: Mapping[str, str] = field(default_factory=dict)

    @property
    def waits_for(self) -> frozenset[str | None]:
        """The keys with errors that are temporary."""
        return frozenset(problem.key for problem in self.problems if problem.is_temporary and not problem.is_warning)

    @property
    def digest(self) -> str:
        """The start of the properties file's ``sha256sum``."""
        return self.signature[self.path][:DIGITS]


LoadFile = Callable[[Path, Sequence[str]], tuple[Loaded, File | None]]
"""Loads a configuration file (`load_file`)."""


def take(
    path: Path,
    clusters: Sequence[str] = (),
    also: Iterable[Path] = (),
    *,
    accepted: Mapping[str, str] = NO_LINES,
    load: LoadFile = load_file,
) -> LoadedConfig:
    """Read ``path`` as `mm2.config.load.load` does. ``accepted``: as in `NearMissRule`.

    ``also``: files of earlier loads, which remain watched if the file cannot be read now.
    """
    before = sign((path, *also))
    loaded, file = load_file(path, clusters, accepted=accepted) if accepted else load(path, clusters)
    named = () if file is None else named_files(file, path.parent)
    reading = None
    if loaded.of_node is not None and file is not None:
        reading = ParsedConfig(settings=loaded.of_node, file=file)
        before = {kept: word for kept, word in before.items() if kept == path or kept in named}
    return LoadedConfig(
        path=path,
        clusters=tuple(clusters),
        reading=reading,
        problems=loaded.problems,
        signature={**sign(set(named) - before.keys()), **before},
        accepted=accepted,
        near_misses=loaded.near_misses,
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
    callers = {
        tokens_path(value, directory)
        for name, value in file.properties.items()
        if name == TOKENS_FILE and value.text.strip()
    }
    tokens = {path for name, entry in entries.items() if not entry.broken for path in oauth_files(name, entry.value)}
    logins = login_files(file.properties)
    return tuple(sorted(stores | queries | callers | tokens | logins | providers.files(entries)))


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
