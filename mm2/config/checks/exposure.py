"""Checks for secrets and commands that more people can get at than the user may expect. The files are valid."""

from __future__ import annotations

import re
import stat
from pathlib import Path

from mm2.config.grammar.problems import ProblemLog
from mm2.config.grammar.properties import Entry
from mm2.config.grammar.values import Properties
from mm2.config.keys.node_keys import OwnSettings, RestSettings
from mm2.core.settings.spark_master import is_loopback

_SECRET_KEY = re.compile(r"(?:password|secret|token|ssl\.keystore\.key)$")
_SECRET_OPTION = re.compile(r"\b(?:password|clientSecret|[\w.]*\.password)\s*=\s*\"?[^\"\s;]")
"""An option of a login module with a value."""

_REFERENCE = re.compile(r"\$\{[^}]*\}")
_HTTP = re.compile(r"http://(?:\[(?P<ipv6>[^]]*)\]|(?P<host>[^:/]*))", re.IGNORECASE)


def check_exposure(properties: Properties, own: OwnSettings, rest: RestSettings, problems: ProblemLog) -> None:
    """Add warnings about the REST interface."""
    url = _unencrypted(rest) if "listeners" in properties else None
    if url is not None and (own.rest_admin or own.rest_read == "token"):
        key, what, who = ("mm2.rest.admin is true", "commands", "an operator who sends one")
        if not own.rest_admin:
            key, what, who = ("mm2.rest.read is token", "requests", "a program that sends one")
        properties["listeners"].warn(
            problems,
            f"{key}, and {url} is not encrypted: {what} of other machines are rejected there, but {who} exposes the "
            "token",
            f"write listeners with https URLs, or with http://127.0.0.1 if all {what} come from the node's machine",
        )
    if "*" in rest.access_control_allow_origin and "access.control.allow.origin" in properties:
        properties["access.control.allow.origin"].warn(
            problems,
            "every web page that someone opens who can connect to the node can read its state",
            "name the origins, such as https://ops.example.com",
        )


def check_file_mode(path: Path, properties: Properties, problems: ProblemLog) -> None:
    """Add a warning about the first line with a secret, not a reference to one, if everyone can read ``path``."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode) or not mode & stat.S_IROTH:
        return
    lines = (value.entry for value in properties.values() if value.entry is not None)
    if (line := next(filter(_has_secret, lines), None)) is not None:
        problems.warning(
            f"every user of this machine can read it, because the mode of the file is {stat.S_IMODE(mode):04o}",
            f"run chmod 600 {path}, or chmod 640 if another user of the node's group owns it, or use a config provider",
            at=line,
        )


def _unencrypted(rest: RestSettings) -> str | None:
    for url in rest.listeners or ():
        match = _HTTP.match(url)
        if match is not None and not is_loopback(match["ipv6"] or match["host"]):
            return url
    return None


def _has_secret(entry: Entry) -> bool:
    text = _REFERENCE.sub("", entry.raw).strip()
    if entry.key.endswith("sasl.jaas.config"):
        return _SECRET_OPTION.search(text) is not None
    return bool(text) and _SECRET_KEY.search(entry.key) is not None
