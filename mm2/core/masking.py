"""The secrets that this process knows. No log line may contain them (`mm2.program.logs`, `flows.lane.lane_runner`).

Code that reads or creates a secret registers it here, so that the mask needs no list of keys: the reader of the file
secret keys and what config providers returned, clients their passwords and private keys, logins their tokens, the
leader the session key, and the node the tokens of its engine and lanes.
"""

from __future__ import annotations

import base64
import json
from enum import Enum
from urllib.parse import quote

from mm2.core.printable import one_line

SHORTEST_SECRET = 4
"""Minimum length of a masked secret in characters. Masking shorter ones would damage ordinary words."""

MOST_RENEWED = 400
"""Renewed secrets of each kind that are remembered, in spellings. Each costs a fraction of a microsecond for a line."""

MOST_ESCAPED = 2
"""How often a text is escaped on its way into a line of a log: by an error that quotes it, and by the line."""

HIDDEN = "[hidden]"

_WORDS = frozenset({"true", "false", "null", "none"})


class Renewed(Enum):
    """A kind of secrets of which new ones take the place of old ones again and again."""

    SESSION_KEY = "session key"
    OAUTH_TOKEN = "token of a client"  # noqa: S105 a name
    CREDENTIAL_FILE = "file that clients read again"
    LANE_TOKEN = "token of a lane"  # noqa: S105 a name


class Mask:
    """Secrets, and texts without them. Can be used by several threads."""

    def __init__(self) -> None:
        self._kept: dict[str, None] = {}
        self._renewed: dict[Renewed, dict[str, None]] = {kind: {} for kind in Renewed}  # the oldest first
        self._longest_first: tuple[str, ...] = ()

    def hide(self, *secrets: str | bytes | None, kind: Renewed | None = None) -> None:
        """Remember secrets; None and empty ones are ignored.

        Of a ``kind`` that is renewed, only the newest are remembered. Others are kept, also passwords of earlier files,
        because connections that use them can still cause messages.
        """
        place = self._kept if kind is None else self._renewed[kind]
        new = [one for secret in secrets if secret for one in _spellings(secret) if one not in place]
        if not new:
            return
        place.update(dict.fromkeys(new))
        if kind is not None:
            for oldest in list(place)[: max(0, len(place) - MOST_RENEWED)]:
                place.pop(oldest, None)
        known: set[str] = set()
        while known != (known := self._known()):  # another thread can have added some meanwhile
            self._longest_first = tuple(sorted(known, key=len, reverse=True))

    def _known(self) -> set[str]:
        return set(self._kept).union(*self._renewed.values())

    def __call__(self, text: str) -> str:
        """Return ``text`` with ``[hidden]`` in place of each secret, however it is spelt."""
        for secret in self._longest_first:  # one can contain another
            text = text.replace(secret, HIDDEN)
        return text


def _spellings(secret: str | bytes) -> set[str]:
    """Return the secret as it is, in JSON, in a URL, as Python shows it, and in one line; bytes also in base64 and
    hexadecimal.

    Spellings of spellings are among them: an error quotes a text as Python shows it, and is then in a line of JSON.
    """
    if isinstance(secret, bytes):
        found = {secret.hex(), repr(secret)[2:-1], base64.b64encode(secret).decode().rstrip("=")}
        found.add(base64.urlsafe_b64encode(secret).decode().rstrip("="))
    else:
        found = {secret, secret.strip(), " ".join(secret.split()), quote(secret, safe="", errors="replace")}
    for _ in range(MOST_ESCAPED):
        found |= {escaped for one in found for escaped in _escaped(one)}
    return {one for one in found if len(one) >= SHORTEST_SECRET and one.lower() not in _WORDS}


def _escaped(text: str) -> tuple[str, ...]:
    """Return a text as JSON, Python and messages for terminals escape it."""
    beside_quotes = repr(f"\"'{text}")[len("'\"\\'") : -1]  # Python escapes ' only if there is a \", too
    in_json = (json.dumps(text, ensure_ascii=ascii_only)[1:-1] for ascii_only in (False, True))
    return (*in_json, repr(text)[1:-1], beside_quotes, one_line(text))


masked = Mask()
"""The mask of this process."""


def hide(*secrets: str | bytes | None, kind: Renewed | None = None) -> None:
    """Keep secrets out of the log of this process from now on: `Mask.hide`."""
    masked.hide(*secrets, kind=kind)
