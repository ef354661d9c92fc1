"""ZooKeeper connect strings: ``host:port,host:port/chroot`` (ZooKeeper's ConnectStringParser).

The default port is 2181; an IPv6 address is enclosed in brackets; a chroot follows the last server, and all paths are
relative to it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

DEFAULT_PORT = 2181

_SERVER = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+(?:%[\w.-]+)?\]|[\w.-]+)(?::(?P<port>[0-9]{1,5}))?")
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")
"""Characters that ZooKeeper's PathUtils rejects in a path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperConnect:
    """``servers`` are ``host:port``; ``chroot`` is empty, or an absolute path without a trailing slash."""

    servers: tuple[str, ...]
    chroot: str


def parse_connect(text: str) -> ZooKeeperConnect:
    """Read a connect string. Spaces around servers are ignored. Raises ValueError; the message is a rule, "must …"."""
    listed, slash, path = text.strip().partition("/")
    servers = tuple(_server(one.strip()) for one in listed.split(","))
    return ZooKeeperConnect(servers=servers, chroot=_chroot(slash + path))


def _server(text: str) -> str:
    match = _SERVER.fullmatch(text)
    if match is None:
        raise ValueError(
            f"must be host:port,host:port/path with an optional path; {text or 'an empty text'} is not a server"
        )
    port = int(match["port"] or DEFAULT_PORT)
    if not 1 <= port <= 65_535:
        raise ValueError(f"must have ports from 1 to 65535, not {port}")
    return f"{match['host']}:{port}"


def _chroot(path: str) -> str:
    if path in ("", "/"):
        return ""
    if any(part in ("", ".", "..") for part in path[1:].split("/")):
        raise ValueError("must have a path without empty parts, . or .., and without a trailing slash")
    if "," in path or _UNPRINTABLE.search(path):
        raise ValueError("must have at most one path, after the last server, without control characters")
    return path
