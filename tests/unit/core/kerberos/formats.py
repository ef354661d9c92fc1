"""Keytabs and ticket caches as MIT's tools write them."""

from __future__ import annotations

import struct


def counted(text: str | bytes, width: str = "H") -> bytes:
    content = text.encode() if isinstance(text, str) else text
    return struct.pack(f">{width}", len(content)) + content


def keytab_of(*principals: str) -> bytes:
    return b"\x05\x02" + b"".join(_entry(principal) for principal in principals)


def hole(length: int) -> bytes:
    """A deleted entry."""
    return struct.pack(">i", -length) + bytes(length)


def _entry(principal: str) -> bytes:
    name, _, realm = principal.rpartition("@")
    components = name.split("/")
    body = struct.pack(">H", len(components)) + counted(realm) + b"".join(map(counted, components))
    body += struct.pack(">IIBH", 1, 1_800_000_000, 2, 18) + counted(bytes(32)) + struct.pack(">I", 2)
    return struct.pack(">i", len(body)) + body


def cache_of(principal: str, *services: str, end: int = 2_000_036_000, renew_till: int = 2_000_600_000) -> bytes:
    """A cache with a ticket for each of ``services``."""
    header = counted(b"\x00\x01\x00\x08\xff\xff\xff\xff\x00\x00\x00\x00")
    tickets = (_ticket(principal, service, end, renew_till) for service in services)
    return b"\x05\x04" + header + _principal(principal) + b"".join(tickets)


def tgt_of(principal: str) -> str:
    realm = principal.rpartition("@")[2]
    return f"krbtgt/{realm}@{realm}"


def _principal(principal: str) -> bytes:
    name, _, realm = principal.rpartition("@")
    components = name.split("/")
    texts = b"".join(counted(text, "I") for text in (realm, *components))
    return struct.pack(">II", 1, len(components)) + texts


def _ticket(client: str, service: str, end: int, renew_till: int) -> bytes:
    times = struct.pack(">IIII", 2_000_000_000, 0, end, renew_till)
    address = struct.pack(">IH", 1, 2) + counted(bytes(4), "I")
    return (
        _principal(client)
        + _principal(service)
        + struct.pack(">H", 18)
        + counted(bytes(32), "I")
        + times
        + struct.pack(">BI", 0, 0x50C1_0000)
        + address
        + struct.pack(">I", 0)
        + counted(b"ticket", "I")
        + counted(b"", "I")
    )
