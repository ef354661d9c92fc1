"""Reading an answer field by field from the bytes it came in, in versions with and without compact fields (KIP-482)."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

_i16 = struct.Struct(">h").unpack_from
_i32 = struct.Struct(">i").unpack_from


class AnswerReader:
    """A cursor over an answer's bytes, which is ``at`` the next field.

    ``flexible``: the version has compact lengths and tag sections.
    """

    __slots__ = ("_body", "_flexible", "at")

    def __init__(self, body: bytes, at: int = 0, *, flexible: bool = False) -> None:
        self._body = body
        self._flexible = flexible
        self.at = at

    def int8(self) -> int:
        self.at += 1
        value = self._body[self.at - 1]
        return value - 256 if value > 127 else value

    def int16(self) -> int:
        (value,) = _i16(self._body, self.at)
        self.at += 2
        return int(value)

    def int32(self) -> int:
        (value,) = _i32(self._body, self.at)
        self.at += 4
        return int(value)

    def boolean(self) -> bool:
        self.at += 1
        return self._body[self.at - 1] != 0

    def uuid(self) -> UUID | None:
        raw = self._body[self.at : self.at + 16]
        self.at += 16
        return UUID(bytes=raw) if any(raw) else None

    def fixed(self, fields: struct.Struct) -> tuple[Any, ...]:
        """Several fields of fixed length at once."""
        self.at += fields.size
        return fields.unpack_from(self._body, self.at - fields.size)

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._body[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def string(self) -> str | None:
        length = self.varint() - 1 if self._flexible else self.int16()
        if length < 0:
            return None
        self.at += length
        return self._body[self.at - length : self.at].decode(errors="replace")  # as Java reads what is no UTF-8

    def length(self) -> int:
        """Elements of the array that begins here; a null array counts as empty."""
        return max(0, self.varint() - 1 if self._flexible else self.int32())

    def int32s(self) -> tuple[int, ...]:
        count = self.length()
        self.at += 4 * count
        return struct.unpack_from(f">{count}i", self._body, self.at - 4 * count)

    def skip(self, size: int) -> None:
        """Pass over so many bytes."""
        self.at += size

    def skip_string(self) -> None:
        """Pass over a string without decoding it."""
        length = self.varint() - 1 if self._flexible else self.int16()
        self.at += max(0, length)

    def since(self, begin: int) -> bytes:
        """The bytes from where the cursor was ``at`` ``begin``."""
        return self._body[begin : self.at]

    def tags(self) -> None:
        """Skip the tag section, where the version has one."""
        if self._flexible:
            for _ in range(self.varint()):
                self.varint()
                size = self.varint()
                self.at += size
