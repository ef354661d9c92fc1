"""ssl.cipher.suites: Java's names of cipher suites, and what OpenSSL can do of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

TLS13_SUITES = frozenset({"TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"})
"""Python cannot choose among the suites of TLS 1.3: OpenSSL's default three are always on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CipherChoice:
    """``older``: OpenSSL's names of the suites for TLS up to 1.2; empty: no such version may be spoken. ``modern``:
    whether TLS 1.3 may be spoken."""

    older: tuple[str, ...]
    modern: bool


def choose(suites: Sequence[str]) -> CipherChoice:
    """What ``suites`` ask for. Raises ValueError where more would be on than was asked for."""
    modern = TLS13_SUITES.intersection(suites)
    if modern and modern != TLS13_SUITES:
        left_out = ", ".join(sorted(TLS13_SUITES - modern))
        raise ValueError(
            f"ssl.cipher.suites: TLS 1.3 suites cannot be chosen one by one here; {left_out} would be on as well."
            " List all three or none"
        )
    return CipherChoice(
        older=tuple(openssl_name(suite) for suite in suites if suite not in TLS13_SUITES), modern=bool(modern)
    )


def openssl_name(suite: str) -> str:
    """OpenSSL's name of a TLS 1.2 suite given by its IANA (Java) name; other names come back as they are.

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
