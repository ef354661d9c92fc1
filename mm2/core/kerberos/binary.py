"""Reading of big-endian numbers and counted data, of which keytabs and ticket caches consist.

The messages of FormatError continue one that begins with the file, such as "is incomplete".
"""

from __future__ import annotations

from mm2.core.wire.formats import FormatError


class Reader:
    """A position in ``content``. All methods raise FormatError at its end."""

    def __init__(self, content: bytes, position: int = 0) -> None:
        self._content = content
        self.position = position

    @property
    def at_end(self) -> bool:
        return self.position >= len(self._content)

    def take(self, length: int) -> bytes:
        """Return the next ``length`` bytes."""
        end = self.position + length
        if length < 0 or end > len(self._content):
            raise FormatError("is incomplete")
        found = self._content[self.position : end]
        self.position = end
        return found

    def number(self, length: int, *, signed: bool = False) -> int:
        """Return a number of ``length`` bytes."""
        return int.from_bytes(self.take(length), signed=signed)

    def counted(self, width: int) -> bytes:
        """Return data that follows its length, a number of ``width`` bytes."""
        return self.take(self.number(width))

    def text(self, width: int) -> str:
        """Return counted data as text."""
        return self.counted(width).decode("utf-8", "replace")
