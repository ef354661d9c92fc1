"""RC2 against the vectors of RFC 2268, and against the library with keys of 128 bits, which it has."""

from __future__ import annotations

import pytest
from cryptography.hazmat.decrepit.ciphers.algorithms import RC2
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.modes import CBC

from mm2.config.security.tls.formats.rc2 import decrypt_cbc


@pytest.mark.parametrize(
    ("key", "plain", "encrypted"),
    [
        ("ffffffffffffffff", "ffffffffffffffff", "278b27e42e2f0d49"),
        ("3000000000000000", "1000000000000001", "30649edf9be7d2c2"),
        ("88bca90e90875a7f0f79c384627bafb2", "0000000000000000", "2269552ab0f85ca6"),
    ],
)
def test_vectors(key: str, plain: str, encrypted: str) -> None:
    assert decrypt_cbc(bytes.fromhex(key), bytes(8), bytes.fromhex(encrypted)).hex() == plain


def test_chained_blocks() -> None:
    key, vector, plain = bytes(range(16)), bytes(range(8)), bytes(range(100, 180))
    encryptor = Cipher(RC2(key), CBC(vector)).encryptor()
    assert decrypt_cbc(key, vector, encryptor.update(plain) + encryptor.finalize()) == plain


def test_half_a_block() -> None:
    with pytest.raises(ValueError, match="12"):
        decrypt_cbc(bytes(5), bytes(8), bytes(12))
