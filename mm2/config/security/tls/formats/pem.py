"""PEM as Java reads it (Kafka's DefaultSslEngineFactory.PemParser), in the form that OpenSSL requires.

The lines of a block can be indented, of any length, or joined to one line, as in a properties file whose lines end with
a backslash. OpenSSL wants lines of at most 64 characters between the first and the last one.
"""

from __future__ import annotations

import re
import textwrap

PEM_BLOCK = re.compile(r"-----BEGIN (?P<kind>[A-Z0-9 ]+)-----(?P<body>.*?)-----END (?P=kind)-----", re.DOTALL)

_HEADER = re.compile(r"\s*(?P<name>[A-Za-z][A-Za-z-]*):[ \t]*(?P<text>\S+)")
"""A header of an encrypted key in openssl's older format (RFC 1421): ``DEK-Info: AES-256-CBC,…``."""

_LINE = 64


def normalized_pem(text: str) -> str:
    """Return the blocks of ``text`` with lines of 64 characters; what is between them is left out. Without a block:
    ``text``."""
    blocks = [_block(match) for match in PEM_BLOCK.finditer(text)]
    return "".join(blocks) if blocks else text


def _block(match: re.Match[str]) -> str:
    headers, body = [], match["body"]
    while (header := _HEADER.match(body)) is not None:
        headers.append(f"{header['name']}: {header['text']}")
        body = body[header.end() :]
    lines = [*headers, *([""] if headers else []), *textwrap.wrap("".join(body.split()), _LINE)]
    kind = match["kind"]
    return "\n".join((f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", ""))
