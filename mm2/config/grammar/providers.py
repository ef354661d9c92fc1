"""Config providers: replace ``${name:path:key}`` in values (KIP-297).

Kafka's three providers are supported, under their Java class names. Java keeps a reference unreplaced if its provider
is not declared or has no such key; here that is an error, because no value is meant to be ``${…}``.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Protocol

import javaproperties

from mm2.config.grammar.java_types import one_of_words, read_list
from mm2.config.grammar.problems import ProblemLog
from mm2.config.grammar.properties import Entry
from mm2.config.grammar.secrets import is_secret, parts
from mm2.config.regex.java_characters import JavaRegexError
from mm2.config.regex.java_regex import JavaPattern, SlowMatchError, compile_java
from mm2.core.masking import hide

_REFERENCE = re.compile(r"\$\{([^}:]*):(?:([^}:]*):)?([^}]*)\}")  # as Java's, which takes cubic time without a }
_JAVA = "org.apache.kafka.common.config.provider"


_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}", re.ASCII)
"""A shell's form of an environment variable, which is no reference."""


class ProviderError(Exception):
    """A reference cannot be resolved: ``rule`` says why, ``fix`` what to do."""

    def __init__(self, rule: str, fix: str) -> None:
        super().__init__(rule)
        self.rule = rule
        self.fix = fix


class ConfigProvider(Protocol):
    """Source of values. Every failure raises ProviderError."""

    def get(self, path: str, key: str) -> str:
        """Return the value of ``key`` at ``path``; ``path`` is empty if the reference has none."""

    def file(self, path: str, key: str) -> Path | None:
        """Return the file that `get` reads, whether it exists or not; None if it reads none."""


@dataclass(frozen=True, slots=True)
class EnvironmentProvider:
    """``${env:NAME}``; ``allowlist.pattern`` limits the names."""

    allowed: JavaPattern | None = None

    def get(self, path: str, key: str) -> str:
        if path:
            raise ProviderError("a reference to an environment variable has no path", f"write ${{PROVIDER:{key}}}")
        if not self._allows(key):
            raise ProviderError(
                f"allowlist.pattern does not allow environment variable {key}",
                f"extend allowlist.pattern to match {key}, or use another variable",
            )
        value = dict(os.environ).get(key)
        if value is None:
            raise ProviderError(f"environment variable {key} is not set", f"set {key} before starting mm2")
        return value

    def _allows(self, key: str) -> bool:
        try:
            return self.allowed is None or self.allowed.matches(key)
        except SlowMatchError:
            raise ProviderError(
                f"allowlist.pattern takes too long for environment variable {key}",
                "write allowlist.pattern without nested repetitions such as (a+)+",
            ) from None

    def file(self, path: str, key: str) -> Path | None:
        return None  # the environment of a running process does not change


@dataclass(frozen=True, slots=True)
class _PathProvider:
    """Files must be below one of ``roots`` (``allowed.paths``); empty: anywhere.

    Java's AllowedPaths compares paths as they are written. Here a symbolic link must not lead out of the roots, either.
    """

    roots: tuple[Path, ...]

    def allowed(self, path: str) -> Path:
        """Return the normalized path. Raises ProviderError."""
        if not path:
            raise ProviderError("the reference has no path", "write ${PROVIDER:PATH:KEY}")
        normal = Path(os.path.normpath(path))
        if self.roots and not any(normal.is_relative_to(root) for root in self.roots):
            raise ProviderError(f"allowed.paths does not allow {path}", f"add the directory of {path} to allowed.paths")
        return normal

    def read(self, path: Path) -> str:
        """Return the text of a file with an `allowed` path. Raises ProviderError."""
        real = path
        with contextlib.suppress(ValueError):  # no valid file name, which `_read` reports
            real = Path(os.path.realpath(path))
        if self.roots and not any(real.is_relative_to(os.path.realpath(root)) for root in self.roots):
            raise ProviderError(
                f"allowed.paths does not allow {path}, which is {real}", f"add {real.parent} to allowed.paths"
            )
        return _read(real, path)


class FileProvider(_PathProvider):
    """``${file:PATH:KEY}``: a key of another properties file, which is UTF-8."""

    def get(self, path: str, key: str) -> str:
        content = self.read(self.allowed(path))
        try:
            properties = javaproperties.load(StringIO(content))
        except javaproperties.InvalidUEscapeError as error:
            raise ProviderError(
                f"{path} has an invalid escape {error.escape}", "write \\\\ for a backslash in that file"
            ) from error
        if key not in properties:
            raise ProviderError(f"{path} has no key {key}", f"add {key} to {path}, or correct the reference")
        return str(properties[key])

    def file(self, path: str, key: str) -> Path | None:
        return self.allowed(path)


class DirectoryProvider(_PathProvider):
    """``${dir:PATH:FILE}``: the whole content of a file, such as a mounted Kubernetes Secret."""

    def get(self, path: str, key: str) -> str:
        directory = self.allowed(path)
        file = directory / key
        if file.parent != directory or not os.path.isfile(file):
            raise ProviderError(f"{path} has no file {key}", f"create {path}/{key}, or correct the reference")
        return self.read(file)

    def file(self, path: str, key: str) -> Path | None:
        return self.allowed(path) / key


def _read(file: Path, path: Path) -> str:
    """Return the text of ``file``, which ``path`` names. Raises ProviderError."""
    try:
        return file.read_text("utf-8")
    except OSError as error:
        raise ProviderError(
            f"{path} cannot be read ({error.strerror})", "check the path, and that the user running mm2 can read it"
        ) from error
    except ValueError as error:  # not UTF-8, or not a valid file name
        raise ProviderError(
            f"{path} cannot be read ({error})", "convert the file to UTF-8, or correct the path"
        ) from error


def resolve(entries: Mapping[str, Entry], problems: ProblemLog) -> dict[str, Entry]:
    """Return all entries with their references replaced; entries with unresolved references are reported and broken.

    No log line will contain the values of secret keys, nor what config providers returned.
    """
    found = _declared(entries, problems)
    resolved = {
        key: entry if key.startswith("config.providers") else _resolved(entry, found, problems)
        for key, entry in entries.items()
    }
    for entry in resolved.values():
        if is_secret(entry.key, entry.raw) and not entry.broken:
            hide(entry.value, *parts(entry.value))
        if not _NAMED_IN_MESSAGES.search(entry.key):
            hide(*(text for _, text in entry.provided if _is_hidden(text)))
    return resolved


_NAMED_IN_MESSAGES = re.compile(
    r"(?:^|\.)(?:clusters|bootstrap\.servers|zookeeper\.connect|(?:topics|groups)(?:\.exclude|\.blacklist)?"
    r"|listeners|rest\.advertised\..*)$"
)
"""Keys of names and addresses, which messages are about."""

_NO_SECRET = re.compile(r"[A-Z_]+|[-0-9.]+")
"""A constant of Kafka, such as SASL_SSL, or a number."""

_SHORTEST_HIDDEN = 6
"""Characters: shorter texts under keys that are not secret are parts of ordinary words."""


def _is_hidden(provided: str) -> bool:
    text = provided.strip()
    return len(text) >= _SHORTEST_HIDDEN and _NO_SECRET.fullmatch(text) is None


def without_references(text: str, by: str = "") -> str:
    """Return ``text`` with each reference replaced ``by`` the same word."""
    return _REFERENCE.sub(by, text)


def files(entries: Mapping[str, Entry]) -> frozenset[Path]:
    """Return the files that references of ``entries`` read, including missing ones."""
    found = _declared(entries, ProblemLog(""))
    paths = set()
    for entry in entries.values():
        for match in _REFERENCE.finditer(entry.raw):
            provider = found.get(match[1])
            if provider is not None and not entry.key.startswith("config.providers"):
                with contextlib.suppress(ProviderError):  # reported when the value was resolved
                    paths.add(provider.file(match[2] or "", match[3]))
    return frozenset(path for path in paths if path is not None)


def _resolved(entry: Entry, found: Mapping[str, ConfigProvider | None], problems: ProblemLog) -> Entry:
    provided: list[tuple[str, str]] = []

    def replace_one(match: re.Match[str]) -> str:
        name, path, key = match[1], match[2] or "", match[3]
        if name not in found and entry.key.startswith("spark."):
            return match[0]  # Spark has its own ${env:…} and ${system:…}
        if name not in found:
            raise ProviderError(
                f"config provider {name} is not declared",
                f"add {name} to config.providers, and config.providers.{name}.class = {_likely_class(name)}",
            )
        provider = found[name]
        if provider is None:
            raise _AlreadyReported
        try:
            text = provider.get(path, key)
        except ProviderError as error:
            raise ProviderError(error.rule, error.fix.replace("PROVIDER", name)) from error
        provided.append((match[0], text))
        return text

    try:
        resolved = entry.resolved(_REFERENCE.sub(replace_one, entry.raw), tuple(provided))
    except _AlreadyReported:
        return replace(entry, broken=True)
    except ProviderError as error:
        problems.error(f"cannot be resolved: {error.rule}", error.fix, at=entry)
        return replace(entry, broken=True)
    variable = _VARIABLE.search(entry.raw)
    if variable is None or entry.key.startswith("spark."):
        return resolved
    rule = f"environment variables are not expanded, so {variable[0]} is used literally"
    fix = _environment_fix(variable[1], found)
    if is_secret(entry.key, entry.raw):  # a password can contain anything
        problems.warning(rule, f"{fix}\nor ignore this warning if the value contains {variable[0]} literally", at=entry)
        return resolved
    problems.error(rule, fix, at=entry)
    return replace(entry, broken=True)


def _environment_fix(variable: str, found: Mapping[str, ConfigProvider | None]) -> str:
    declared = next((name for name, provider in found.items() if isinstance(provider, EnvironmentProvider)), None)
    if declared is not None:
        return f"write ${{{declared}:{variable}}}"
    more = ", ".join((*found, "env"))
    return f"write ${{env:{variable}}}\nadd config.providers = {more}\nadd config.providers.env.class = {_ENVIRONMENT}"


def _likely_class(name: str) -> str:
    return next((known for known in _BUILDERS if f".{name.lower()}" in known.lower()), "CLASS")


class _AlreadyReported(Exception):
    """The declaration of the provider is invalid, which is reported at its own line."""


def _declared(entries: Mapping[str, Entry], problems: ProblemLog) -> dict[str, ConfigProvider | None]:
    if "config.providers" not in entries:
        return {}
    return {name: _provider(name, entries, problems) for name in read_list(entries["config.providers"].value)}


def _provider(name: str, entries: Mapping[str, Entry], problems: ProblemLog) -> ConfigProvider | None:
    line = entries.get(f"config.providers.{name}.class")
    if line is None:
        problems.error(
            f"config provider {name} has no class",
            f"add config.providers.{name}.class = {_likely_class(name)} (supported: {one_of_words(tuple(_BUILDERS))})",
            at=entries["config.providers"],
        )
        return None
    builder = _BUILDERS.get(line.value.strip())
    if builder is None:
        problems.error("custom config providers are not supported", f"use {one_of_words(tuple(_BUILDERS))}", at=line)
        return None
    return builder(f"config.providers.{name}.param.", entries, problems)


def _environment(prefix: str, entries: Mapping[str, Entry], problems: ProblemLog) -> ConfigProvider | None:
    line = entries.get(f"{prefix}allowlist.pattern")
    try:
        return EnvironmentProvider(compile_java(line.value) if line is not None else None)
    except JavaRegexError as error:
        assert line is not None
        problems.error(str(error), "correct the pattern; write each backslash twice", at=line)
        return None


def _with_paths(
    provider: Callable[[tuple[Path, ...]], ConfigProvider],
    prefix: str,
    entries: Mapping[str, Entry],
    problems: ProblemLog,
) -> ConfigProvider | None:
    line = entries.get(f"{prefix}allowed.paths")
    roots = [Path(os.path.normpath(root)) for root in line.value.split(",") if root] if line is not None else []
    if bad := [str(root) for root in roots if not root.is_absolute() or not os.path.exists(root)]:
        problems.error(
            f"{', '.join(bad)} {'are' if bad[1:] else 'is'} not absolute or {'do' if bad[1:] else 'does'} not exist",
            "write absolute paths that exist",
            at=line,
        )
        return None
    return provider(tuple(roots))


_ENVIRONMENT = f"{_JAVA}.EnvVarConfigProvider"
_BUILDERS: Mapping[str, Callable[[str, Mapping[str, Entry], ProblemLog], ConfigProvider | None]] = {
    _ENVIRONMENT: _environment,
    f"{_JAVA}.FileConfigProvider": partial(_with_paths, FileProvider),
    f"{_JAVA}.DirectoryConfigProvider": partial(_with_paths, DirectoryProvider),
}
