"""Keytabs: the keys of principals (MIT's keytab file format, version 0x0502).

::

    keytab    = 05 02 entry*
    entry     = size:int32 components:uint16 realm component* type:uint32 time:uint32 version:uint8 enctype:uint16 key …
    realm, component, key = length:uint16 bytes

A negative size is a deleted entry.
"""

from __future__ import annotations

from collections.abc import Iterator

from mm2.core.kerberos.binary import Reader
from mm2.core.wire.formats import FormatError

_MAGIC = b"\x05\x02"


def principals(content: bytes) -> tuple[str, ...]:
    """Return the names of the principals of a keytab, such as ``mm2/host@REALM``, each once. Raises FormatError."""
    if not content.startswith(_MAGIC):
        raise FormatError("is not a keytab")
    return tuple(dict.fromkeys(_entries(Reader(content, len(_MAGIC)))))


def _entries(reader: Reader) -> Iterator[str]:
    while not reader.at_end:
        size = reader.number(4, signed=True)
        entry = Reader(reader.take(abs(size)))
        if size > 0:
            components = entry.number(2)
            realm = entry.text(2)
            yield "/".join(entry.text(2) for _ in range(components)) + f"@{realm}"
