"""The secrets that this process knows. No log line may contain them (`mm2.program.logs`, `flows.lane.lane_log`).

Code that reads or creates a secret registers it here, so that the mask needs no list of keys: the reader of the file
secret keys and what config providers returned, clients their passwords and private keys, logins their tokens, the
leader the session key, and the node the tokens of its engine and lanes.
"""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

SHORTEST_SECRET = 4
"""Minimum length of a masked secret in characters. Masking shorter ones would damage ordinary words."""

MOST_RENEWED = 1_000
"""Renewed secrets that are remembered, in spellings: those of some hundred tokens, each a fraction of a microsecond for
a log line."""

HIDDEN = "[hidden]"

_WORDS = frozenset({"true", "false", "null", "none"})


class Mask:
    """Secrets, and texts without them. Can be used by several threads."""

    def __init__(self) -> None:
        self._kept: dict[str, None] = {}
        self._renewed: dict[str, None] = {}  # the oldest first
        self._longest_first: tuple[str, ...] = ()

    def hide(self, *secrets: str | bytes | None, renewed: bool = False) -> None:
        """Remember secrets; None and empty ones are ignored.

        ``renewed``: others will take their place, so that only the newest are remembered. Passwords of earlier files
        are kept, because connections that use them can still cause messages.
        """
        place = self._renewed if renewed else self._kept
        new = [one for secret in secrets if secret for one in _spellings(secret) if one not in place]
        if not new:
            return
        place.update(dict.fromkeys(new))
        for oldest in list(self._renewed)[: max(0, len(self._renewed) - MOST_RENEWED)]:
            self._renewed.pop(oldest, None)
        self._longest_first = tuple(sorted((*self._kept, *self._renewed), key=len, reverse=True))

    def __call__(self, text: str) -> str:
        """Return ``text`` with ``[hidden]`` in place of each secret, however it is spelt."""
        for secret in self._longest_first:  # one can contain another
            text = text.replace(secret, HIDDEN)
        return text


def _spellings(secret: str | bytes) -> set[str]:
    """Return the secret as it is, in JSON, in a URL, and as Python shows it; bytes also in base64 and hexadecimal."""
    if isinstance(secret, bytes):
        found = {secret.hex(), repr(secret)[2:-1], base64.b64encode(secret).decode().rstrip("=")}
        found.add(base64.urlsafe_b64encode(secret).decode().rstrip("="))
    else:
        found = {secret, secret.strip(), json.dumps(secret, ensure_ascii=False)[1:-1], json.dumps(secret)[1:-1]}
        found |= {repr(secret)[1:-1], quote(secret, safe="", errors="replace")}
    return {one for one in found if len(one) >= SHORTEST_SECRET and one.lower() not in _WORDS}


masked = Mask()
"""The mask of this process."""


def hide(*secrets: str | bytes | None) -> None:
    """Keep secrets out of the log of this process from now on."""
    masked.hide(*secrets)


def hide_renewed(*secrets: str | bytes | None) -> None:
    """The same for tokens and other secrets that are replaced again and again: the newest are remembered."""
    masked.hide(*secrets, renewed=True)
