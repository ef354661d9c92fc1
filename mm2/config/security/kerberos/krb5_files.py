"""krb5.conf with the files that it includes, and the default places of keytabs and ticket caches."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from mm2.config.security.java_options import KRB5_CONF, file_of, user_home
from mm2.core.kerberos.krb5_conf import libdefault

SYSTEM_FILE = Path("/etc/krb5.conf")
_CACHE_OF_USER = "/tmp/krb5cc_{uid}"  # noqa: S108 - where kinit writes it

_DEEPEST = 10
"""Levels of includes; more are a file that includes itself."""

_DIRECTIVE = re.compile(r"(include|includedir|module)\s+(.*)")
_INCLUDED_NAME = re.compile(r"[A-Za-z0-9_-]+|[^.].*\.conf")
"""Names of files that includedir reads."""


class Krb5ConfError(ValueError):
    """A file cannot be read. The message is a rule."""


def krb5_conf_files(*, system_file: Path = SYSTEM_FILE) -> tuple[Path, ...]:
    """Return the files of this process: java.security.krb5.conf in KAFKA_OPTS, else the environment variable
    KRB5_CONFIG, a list separated by colons, else ``system_file`` if it exists."""
    named = file_of(KRB5_CONF)
    if named is not None:
        return (named,)
    listed = tuple(Path(name) for name in os.environ.get("KRB5_CONFIG", "").split(":") if name)
    return listed or ((system_file,) if system_file.exists() else ())


def read_krb5_conf(*, system_file: Path = SYSTEM_FILE) -> str | None:
    """Return the text of all files, with the included ones; None if there are none. Raises Krb5ConfError."""
    lines = [line for path in krb5_conf_files(system_file=system_file) for _, line in _lines(path)]
    return "\n".join(lines) + "\n" if lines else None


def all_files() -> frozenset[Path]:
    """Return the files of this process and the files that they include, including missing ones."""
    files = krb5_conf_files()
    try:
        return frozenset(files) | {file for path in files for file, _ in _lines(path)}
    except Krb5ConfError:
        return frozenset(files)


def _lines(path: Path, depth: int = 0) -> Iterator[tuple[Path, str]]:
    """Return each line with its file. After an included file the section of the including one continues."""
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise Krb5ConfError(f"requires {path}, which cannot be read ({reason})") from error
    if depth > _DEEPEST:
        raise Krb5ConfError(f"requires {path}, which includes itself")
    section = ""
    for line in text.splitlines():
        directive = _DIRECTIVE.match(line)
        if directive is None:
            section = line if line.startswith("[") else section
            yield path, line
        elif directive[1] != "module":  # plugins of the C library cannot be taken to another machine
            for included in _included(directive[1], Path(directive[2].strip())):
                yield from _lines(included, depth + 1)
            yield path, section


def _included(kind: str, path: Path) -> list[Path]:
    if kind == "include":
        return [path]
    try:
        return sorted(file for file in path.iterdir() if _INCLUDED_NAME.fullmatch(file.name) and file.is_file())
    except OSError as error:
        raise Krb5ConfError(f"requires {path}, which cannot be read ({error.strerror})") from error


def default_keytab(krb5_conf: str | None) -> str | None:
    """Return the keytab of a login module without the option keyTab (sun.security.krb5.internal.ktab.KeyTab); None:
    krb5.conf names none, and this user has no home directory."""
    named = libdefault(krb5_conf or "", "default_keytab_name")
    if named:
        return named.split()[0]
    home = user_home()
    return None if home is None else str(Path(home, "krb5.keytab"))


def default_ticket_cache() -> str:
    """Return the ticket cache of a login module without the option ticketCache (FileCredentialsCache)."""
    return os.environ.get("KRB5CCNAME") or _CACHE_OF_USER.format(uid=os.getuid())
