"""Who uses the REST interface: roles, the named tokens of mm2.rest.tokens.file, and the caller of a request.

Each line of the file has three words; empty lines and lines that start with # do not count::

    NAME ROLE SHA256       alice operator 5f0c…     SHA256: that of the token, in hex

The file has no tokens, only their digests. A token must be long and random (``openssl rand -hex 32``), because the
digest of a short one can be guessed. A name can have several tokens, so that one can replace another.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

ADMIN_NAME = "admin"
"""Name of who uses mm2.rest.admin.token."""

UNKNOWN_NAME = "unknown"
"""Name of an operator whose command a node of an earlier release forwarded."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_OF_NO_TOKEN = frozenset(hashlib.sha256(text).hexdigest() for text in (b"", b"\n", b"\r\n"))


class Role(StrEnum):
    """What a caller may do."""

    VIEWER = "viewer"
    """Read."""
    OPERATOR = "operator"
    """Read, and send commands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedToken:
    """A token that is accepted. ``sha256``: its digest in lower-case hex."""

    name: str
    role: Role
    sha256: str

    @classmethod
    def admin(cls, token: str) -> Self:
        """Return the entry of mm2.rest.admin.token."""
        return cls(name=ADMIN_NAME, role=Role.OPERATOR, sha256=hashlib.sha256(token.encode()).hexdigest())


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who sent a request. ``address``: the peer of the connection, as the first node saw it; empty: unknown."""

    name: str
    role: Role
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLineError:
    """Why a line of the file is wrong. The texts contain no token, although the line may."""

    line: int
    rule: str
    fix: str


def find_token(given: bytes, tokens: Iterable[NamedToken]) -> NamedToken | None:
    """Return the entry of a token that a client sent; None: it is wrong. Takes the same time for each token."""
    digest = hashlib.sha256(given).hexdigest()
    found = None
    for one in tokens:
        if hmac.compare_digest(one.sha256, digest):
            found = one
    return found


def read_tokens(text: str) -> tuple[tuple[NamedToken, ...], tuple[TokenLineError, ...]]:
    """Return the tokens in the content of a file, and its errors, by line."""
    tokens: list[NamedToken] = []
    errors: list[TokenLineError] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        found = _read_line(words, tokens)
        if isinstance(found, NamedToken):
            tokens.append(found)
        else:
            errors.append(TokenLineError(line=number, rule=found[0], fix=found[1]))
    return tuple(tokens), tuple(errors)


def _read_line(words: list[str], earlier: Iterable[NamedToken]) -> NamedToken | tuple[str, str]:
    """Return the token of a line, or the rule that it breaks and the fix."""
    if len(words) != 3:
        return f"has {len(words)} words instead of NAME ROLE SHA256", "write for example alice operator and the digest"
    name, role, digest = words[0], words[1], words[2].lower()
    found = next(_broken_rules(name, role, digest, earlier), None)
    return NamedToken(name=name, role=Role(role), sha256=digest) if found is None else found


def _broken_rules(name: str, role: str, digest: str, earlier: Iterable[NamedToken]) -> Iterator[tuple[str, str]]:
    if not _NAME.fullmatch(name):
        yield "the name must be 1 to 100 letters, digits, dots, hyphens, underscores or @", "choose another name"
    if name in (ADMIN_NAME, UNKNOWN_NAME):
        yield f"{name} is a name that the program uses itself", "choose another name"
    if role not in tuple(Role):
        yield f"the role of {name} must be viewer or operator", f"write {name} viewer or {name} operator"
    if not _SHA256.fullmatch(digest):
        yield f"the digest of {name} must be 64 hex digits", 'write the output of printf %s "$TOKEN" | sha256sum'
    if digest in _OF_NO_TOKEN:
        yield f"the digest of {name} is that of an empty token", "set TOKEN before you compute its digest"
    for other in earlier:
        if other.sha256 == digest:
            yield f"{name} has the same token as an earlier line for {other.name}", "make a token for each line"
        if other.name == name and other.role != role:
            yield f"{name} is {other.role} in an earlier line", f"give {name} one role, or use two names"
