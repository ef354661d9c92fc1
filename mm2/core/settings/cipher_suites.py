"""ssl.cipher.suites: Java's cipher suite names, and those that OpenSSL supports."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

TLS13_SUITES = frozenset({"TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"})
"""The TLS 1.3 suites. Python cannot select single ones: OpenSSL's three defaults are always enabled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CipherChoice:
    """``older``: OpenSSL's names of the suites for TLS up to 1.2; empty: those versions are disabled. ``modern``:
    whether TLS 1.3 is enabled."""

    older: tuple[str, ...]
    modern: bool


def choose(suites: Sequence[str]) -> CipherChoice:
    """Return the choice for ``suites``. Raises ValueError if suites that are not listed would be enabled."""
    modern = TLS13_SUITES.intersection(suites)
    if modern and modern != TLS13_SUITES:
        left_out = ", ".join(sorted(TLS13_SUITES - modern))
        raise ValueError(
            f"ssl.cipher.suites: TLS 1.3 suites cannot be selected individually; {left_out} would also be enabled."
            " List all three or none"
        )
    return CipherChoice(
        older=tuple(openssl_name(suite) for suite in suites if suite not in TLS13_SUITES), modern=bool(modern)
    )


def openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a TLS 1.2 suite given by its IANA (Java) name; other names are returned unchanged.

    >>> openssl_name("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")
    'ECDHE-RSA-AES256-GCM-SHA384'
    """
    match = re.fullmatch(r"(?:TLS|SSL)_(\w+)_WITH_(\w+)", suite)
    if match is None:
        return suite
    exchange, cipher = match.groups()
    cipher = re.sub(r"AES_(\d+)_", r"AES\1_", cipher).replace("CBC_", "").replace("POLY1305_SHA256", "POLY1305")
    parts = [*([] if exchange == "RSA" else exchange.split("_")), *cipher.split("_")]
    return "-".join(parts)
