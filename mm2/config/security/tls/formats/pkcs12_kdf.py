"""Keys from passwords, as PKCS12 stores derive them (RFC 7292, appendix B)."""

from __future__ import annotations

import hashlib

FOR_KEY, FOR_VECTOR, FOR_MAC = 1, 2, 3
"""What the bytes are for, an input of their derivation: an encryption key, an initialization vector, a MAC."""

MOST_ITERATIONS = 5_000_000
"""Java reads no store with more. A damaged number must not occupy the process for hours."""

PBKDF2 = bytes.fromhex("2a864886f70d01050c")  # 1.2.840.113549.1.5.12
HMACS = {
    bytes.fromhex("2a864886f70d02") + bytes((arc,)): name  # 1.2.840.113549.2.arc
    for arc, name in enumerate(("sha1", "sha224", "sha256", "sha384", "sha512", "sha512_224", "sha512_256"), 7)
}
"""Another derivation, which newer algorithms use (RFC 8018), and the functions that it can have."""


def pbkdf2(digest: str, password: str, salt: bytes, iterations: int, length: int) -> bytes:
    """Return ``length`` bytes derived by `PBKDF2`, for which the password is UTF-8."""
    return hashlib.pbkdf2_hmac(digest, password.encode("utf-8", "surrogatepass"), salt, iterations, length)


def spellings(password: str) -> tuple[bytes, ...]:
    """Return the bytes of a password: a BMPString with a terminator. Tools differ in whether an empty one has it."""
    terminated = password.encode("utf-16-be", "surrogatepass") + b"\0\0"
    return (terminated,) if password else (terminated, b"")


def derive(digest: str, purpose: int, password: bytes, salt: bytes, iterations: int, *, length: int = 0) -> bytes:
    """Return ``length`` bytes, by default as many as the digest has. ``password``: one of `spellings`."""
    size = hashlib.new(digest).block_size
    inputs = _repeated(salt, size) + _repeated(password, size)
    found = b""
    while True:
        block = bytes((purpose,)) * size + inputs
        for _ in range(iterations):
            block = hashlib.new(digest, block).digest()
        found += block
        if len(found) >= length:
            return found[:length] if length else found
        addend = int.from_bytes(_repeated(block, size)[:size]) + 1
        inputs = b"".join(
            ((int.from_bytes(inputs[at : at + size]) + addend) % (1 << 8 * size)).to_bytes(size)
            for at in range(0, len(inputs), size)
        )


def _repeated(text: bytes, size: int) -> bytes:
    """Return as many copies of ``text`` as fill whole blocks of ``size`` bytes, the last copy shortened."""
    blocks = -(-len(text) // size)
    return (text * size)[: blocks * size]
