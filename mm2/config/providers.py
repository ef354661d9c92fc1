"""Config providers: what ``${name:path:key}`` in a value stands for (mm2-compat §1.9).

Java's own three are known by their class names. Where Java would leave a reference as it stands, because the provider
is not declared or knows no such key, that is an error here: no value is meant to be ``${…}``.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Protocol

import javaproperties
import regex

from mm2.config.java_regex import compile_java
from mm2.config.java_regex_sets import JavaRegexError
from mm2.config.java_types import one_of_words, read_list
from mm2.config.problems import ProblemLog
from mm2.config.properties import Entry

_REFERENCE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
_JAVA = "org.apache.kafka.common.config.provider"


class ProviderError(Exception):
    """A provider cannot answer; the message completes "… refers to a value that cannot be had: …"."""


class ConfigProvider(Protocol):
    """Looks values up. Raises ProviderError, whatever the reason."""

    def get(self, path: str, key: str) -> str:
        """The value of ``key`` at ``path``, empty where the reference has none."""

    def file(self, path: str, key: str) -> Path | None:
        """The file that `get` looks into, whether it is there or not; None where it looks into none."""


@dataclass(frozen=True, slots=True)
class EnvironmentProvider:
    """``${env:NAME}``; ``allowlist.pattern`` says which names may be asked for."""

    allowed: regex.Pattern[str] | None = None

    def get(self, path: str, key: str) -> str:
        if path:
            raise ProviderError("a reference to the environment has no path")
        if self.allowed is not None and not self.allowed.fullmatch(key):
            raise ProviderError(f"allowlist.pattern does not allow the environment variable {key}")
        value = dict(os.environ).get(key)
        if value is None:
            raise ProviderError(f"there is no environment variable {key}")
        return value

    def file(self, path: str, key: str) -> Path | None:
        return None  # the environment of a process does not change from outside


@dataclass(frozen=True, slots=True)
class _Paths:
    """``allowed.paths``: files must lie under one of them; empty: anywhere."""

    roots: tuple[Path, ...]

    def check(self, path: str) -> Path:
        if not path:
            raise ProviderError("the reference has no path")
        normal = Path(os.path.normpath(path))
        if self.roots and not any(normal.is_relative_to(root) for root in self.roots):
            raise ProviderError(f"allowed.paths does not allow {path}")
        return normal


@dataclass(frozen=True, slots=True)
class FileProvider:
    """``${file:PATH:KEY}``: a key of another file of properties, which is UTF-8."""

    paths: _Paths

    def get(self, path: str, key: str) -> str:
        content = _read(self.paths.check(path))
        try:
            properties = javaproperties.load(StringIO(content))
        except javaproperties.InvalidUEscapeError as error:
            raise ProviderError(f"{path} has a bad escape {error.escape}") from error
        if key not in properties:
            raise ProviderError(f"{path} has no key {key}")
        return str(properties[key])

    def file(self, path: str, key: str) -> Path | None:
        return self.paths.check(path)


@dataclass(frozen=True, slots=True)
class DirectoryProvider:
    """``${dir:PATH:FILE}``: the whole content of a file, as Kubernetes mounts secrets."""

    paths: _Paths

    def get(self, path: str, key: str) -> str:
        directory = self.paths.check(path)
        file = directory / key
        if file.parent != directory or not os.path.isfile(file):
            raise ProviderError(f"there is no file {key} in {path}")
        return _read(file)

    def file(self, path: str, key: str) -> Path | None:
        return self.paths.check(path) / key


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise ProviderError(f"{path} cannot be read ({error.strerror})") from error
    except ValueError as error:  # not UTF-8, or no name that a file can have
        raise ProviderError(f"{path} cannot be read ({error})") from error


def resolve(entries: Mapping[str, Entry], problems: ProblemLog) -> dict[str, Entry]:
    """All entries with their references replaced. One that cannot be is told to ``problems`` and marked as broken."""
    found = _declared(entries, problems)
    return {
        key: entry if key.startswith("config.providers") else _resolved(entry, found, problems)
        for key, entry in entries.items()
    }


def files(entries: Mapping[str, Entry]) -> frozenset[Path]:
    """The files that the values of ``entries`` are looked up in, also those that are not there (yet)."""
    found = _declared(entries, ProblemLog(""))
    paths = set()
    for entry in entries.values():
        for match in _REFERENCE.finditer(entry.raw):
            provider = found.get(match[1])
            if provider is not None and not entry.key.startswith("config.providers"):
                with contextlib.suppress(ProviderError):  # it was told when the value was asked for
                    paths.add(provider.file(match[2] or "", match[3]))
    return frozenset(path for path in paths if path is not None)


def _resolved(entry: Entry, found: Mapping[str, ConfigProvider | None], problems: ProblemLog) -> Entry:
    def replace_one(match: re.Match[str]) -> str:
        name, path, key = match[1], match[2] or "", match[3]
        if name not in found and entry.key.startswith("spark."):
            return match[0]  # Spark knows ${env:…} and ${system:…} of its own
        if name not in found:
            raise ProviderError(
                f"there is no config provider {name}. Add it to config.providers, with config.providers.{name}.class"
            )
        provider = found[name]
        if provider is None:
            raise _AlreadyReported
        return provider.get(path, key)

    try:
        return entry.resolved(_REFERENCE.sub(replace_one, entry.raw))
    except _AlreadyReported:
        return replace(entry, broken=True)
    except ProviderError as error:
        problems.error(f"refers to a value that cannot be had: {error}.", at=entry)
        return replace(entry, broken=True)


class _AlreadyReported(Exception):
    """The provider itself is declared wrongly, which its own line was blamed for."""


def _declared(entries: Mapping[str, Entry], problems: ProblemLog) -> dict[str, ConfigProvider | None]:
    if "config.providers" not in entries:
        return {}
    return {name: _provider(name, entries, problems) for name in read_list(entries["config.providers"].value)}


def _provider(name: str, entries: Mapping[str, Entry], problems: ProblemLog) -> ConfigProvider | None:
    line = entries.get(f"config.providers.{name}.class")
    if line is None:
        problems.error(
            f"names {name}, but there is no config.providers.{name}.class. Add it: {one_of_words(tuple(_BUILDERS))}.",
            at=entries["config.providers"],
        )
        return None
    builder = _BUILDERS.get(line.value.strip())
    if builder is None:
        problems.error(f"must be {one_of_words(tuple(_BUILDERS))}; other classes cannot be run.", at=line)
        return None
    return builder(f"config.providers.{name}.param.", entries, problems)


def _environment(prefix: str, entries: Mapping[str, Entry], problems: ProblemLog) -> ConfigProvider | None:
    line = entries.get(f"{prefix}allowlist.pattern")
    try:
        return EnvironmentProvider(compile_java(line.value) if line is not None else None)
    except JavaRegexError as error:
        assert line is not None
        problems.error(f"{error}. Correct the pattern; a backslash is written twice in the file.", at=line)
        return None


def _paths(prefix: str, entries: Mapping[str, Entry], problems: ProblemLog) -> _Paths | None:
    line = entries.get(f"{prefix}allowed.paths")
    if line is None:
        return _Paths(())
    roots = [Path(os.path.normpath(root)) for root in line.value.split(",") if root]
    bad = [str(root) for root in roots if not root.is_absolute() or not os.path.exists(root)]
    if bad:
        problems.error(f"must be absolute paths that exist; {', '.join(bad)} is not. Correct the list.", at=line)
        return None
    return _Paths(tuple(roots))


def _file(prefix: str, entries: Mapping[str, Entry], problems: ProblemLog) -> ConfigProvider | None:
    paths = _paths(prefix, entries, problems)
    return None if paths is None else FileProvider(paths)


def _directory(prefix: str, entries: Mapping[str, Entry], problems: ProblemLog) -> ConfigProvider | None:
    paths = _paths(prefix, entries, problems)
    return None if paths is None else DirectoryProvider(paths)


_BUILDERS: Mapping[str, Callable[[str, Mapping[str, Entry], ProblemLog], ConfigProvider | None]] = {
    f"{_JAVA}.EnvVarConfigProvider": _environment,
    f"{_JAVA}.FileConfigProvider": _file,
    f"{_JAVA}.DirectoryConfigProvider": _directory,
}
