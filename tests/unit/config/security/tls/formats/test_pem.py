"""PEM as Java reads it. Real certificates and keys in these forms are in test_stores.py."""

from __future__ import annotations

import pytest

from mm2.config.security.tls.formats.pem import normalized_pem

BODY = "A" * 64 + "B" * 8
NORMAL = f"-----BEGIN X-----\n{'A' * 64}\n{'B' * 8}\n-----END X-----\n"
ENCRYPTED = (
    f"-----BEGIN X-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A\n\n{'A' * 64}\n{'B' * 8}\n-----END X-----\n"
)


@pytest.mark.parametrize(
    "text",
    [
        NORMAL,
        f"-----BEGIN X----- {BODY[:7]} {BODY[7:]} -----END X-----",
        f"-----BEGIN X-----\r\n{BODY}\r\n-----END X-----",
        f"  -----BEGIN X-----\n  {BODY[:30]}\n\t{BODY[30:]}\n  -----END X-----",
        f"subject=CN = x\n-----BEGIN X-----{BODY}-----END X-----",
    ],
)
def test_forms_of_one_block(text: str) -> None:
    assert normalized_pem(text) == NORMAL
    assert normalized_pem(f"{text}\n{text}") == NORMAL * 2


@pytest.mark.parametrize(
    "text", [ENCRYPTED, f"-----BEGIN X----- Proc-Type: 4,ENCRYPTED DEK-Info: AES-128-CBC,0A {BODY} -----END X-----"]
)
def test_headers_of_an_encrypted_key(text: str) -> None:
    assert normalized_pem(text) == ENCRYPTED


def test_other_text() -> None:
    assert normalized_pem("no block") == "no block"
