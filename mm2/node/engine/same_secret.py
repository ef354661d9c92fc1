"""Comparison of secrets in time that does not depend on how much of them is right."""

from __future__ import annotations

from hmac import compare_digest


def is_same_secret(given: str, own: str) -> bool:
    """Return whether a secret that a caller has sent is our own. Any text can be given, also one that is not ASCII."""
    return compare_digest(given.encode(errors="surrogatepass"), own.encode())
