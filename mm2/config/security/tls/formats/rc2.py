"""RC2 in CBC mode, decryption only (RFC 2268).

Java before 8u301 and 11.0.12 encrypts the certificates of PKCS12 stores with a key of 40 bits, and so does openssl
before 3.0. The library has no RC2 with keys of that length.
"""

from __future__ import annotations

_BLOCK = 8  # bytes
_WORD = 0xFFFF
_SHIFTS = (1, 2, 3, 5)
_MIXING_ROUNDS = (5, 6, 5)
"""Rounds between those that mash."""

_PI = bytes.fromhex(
    "d978f9c419ddb5ed28e9fd794aa0d89dc67e37832b76538e624c6488448bfba2179a59f587b34f1361456d8d09817d32"
    "bd8f40eb86b77b0bf09521225c6b4e8254d66593ce60b21c7356c014a78cf1dc1275ca1f3bbee4d1423dd430a33cb626"
    "6fbf0eda4669075727f21d9bbc944303f811c7f690ef3ee706c3d52fc8661ed708e8eade8052eef784aa72ac354d6a2a"
    "961ad2715a1549744b9fd05e0418a4ecc2e0416e0f51cbcc2491af50a1f47039997c3a8523b8b47afc02365b25559731"
    "2d5dfa98e38a92ae05df2910676cbac9d300e6cfe19ea82c6316013f58e289a90d38341bab33ffb0bb480c5fb9b1cd2e"
    "c5f3db47e5a59c770aa62068fe7fc1ad"
)
"""PITABLE, a permutation of the bytes that the digits of pi determine."""


def decrypt_cbc(key: bytes, vector: bytes, data: bytes) -> bytes:
    """Return ``data`` decrypted, with its padding. All bits of ``key`` are effective. Raises ValueError if ``data`` is
    not in blocks of eight bytes."""
    if len(data) % _BLOCK:
        raise ValueError(len(data))
    words = _expanded(key)
    found = b""
    for at in range(0, len(data), _BLOCK):
        block = data[at : at + _BLOCK]
        plain = int.from_bytes(_decrypted(words, block)) ^ int.from_bytes(vector)
        found += plain.to_bytes(_BLOCK)
        vector = block
    return found


def _expanded(key: bytes) -> list[int]:
    """Return the 64 words of an expanded key."""
    size, table = len(key), bytearray(128)
    table[:size] = key
    for at in range(size, 128):
        table[at] = _PI[table[at - 1] + table[at - size] & 0xFF]
    table[128 - size] = _PI[table[128 - size]]
    for at in range(127 - size, -1, -1):
        table[at] = _PI[table[at + 1] ^ table[at + size]]
    return [int.from_bytes(table[at : at + 2], "little") for at in range(0, 128, 2)]


def _decrypted(words: list[int], block: bytes) -> bytes:
    state = [int.from_bytes(block[at : at + 2], "little") for at in range(0, _BLOCK, 2)]
    at = len(words)
    for number, rounds in enumerate(_MIXING_ROUNDS):
        if number:
            for i in (3, 2, 1, 0):
                state[i] = state[i] - words[state[i - 1] & 63] & _WORD
        for _ in range(rounds):
            for i in (3, 2, 1, 0):
                at -= 1
                turned = state[i] >> _SHIFTS[i] | state[i] << 16 - _SHIFTS[i] & _WORD
                mixed = (state[i - 1] & state[i - 2]) + (~state[i - 1] & state[i - 3])
                state[i] = turned - words[at] - mixed & _WORD
    return b"".join(word.to_bytes(2, "little") for word in state)
