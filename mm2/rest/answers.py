"""Answers with a body: compressed where that helps."""

from __future__ import annotations

import gzip

from fastapi import Response

JSON = "application/json"

GZIP_FROM_BYTES = 1_400
"""About one network packet: a shorter answer does not arrive any earlier when compressed."""


def packed(body: bytes, accept_encoding: str, content_type: str = JSON) -> Response:
    """``body`` as an answer, compressed when it is long and the caller takes gzip."""
    headers = {"Vary": "Accept-Encoding", "Content-Type": content_type}
    if len(body) >= GZIP_FROM_BYTES and "gzip" in accept_encoding:
        body = gzip.compress(body, compresslevel=1)  # 7 MB of metrics become 0.4 MB in 20 ms
        headers["Content-Encoding"] = "gzip"
    return Response(body, headers=headers)
