"""Tokens of the engine and of lanes. They are compared in time that does not depend on how much of them is right."""

from __future__ import annotations

import secrets
from hmac import compare_digest

from mm2.core.masking import Renewed, hide


def new_token() -> str:
    """Return a new token of 128 random bits, which no log line will contain."""
    token = secrets.token_hex(16)
    hide(token, kind=Renewed.LANE_TOKEN)
    return token


def is_same_secret(given: str, own: str) -> bool:
    """Return whether a secret that a caller has sent is our own. Any text can be given, also one that is not ASCII."""
    return compare_digest(given.encode(errors="surrogatepass"), own.encode())
