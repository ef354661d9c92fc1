"""Ticket caches: the tickets of one principal (MIT's credential cache file format, version 4).

::

    cache      = 05 04 length:uint16 header principal credential*
    principal  = type:uint32 components:uint32 realm component*
    credential = client:principal server:principal enctype:uint16 key auth:uint32 start:uint32 end:uint32
                 renew-till:uint32 session-key:uint8 flags:uint32 addresses authdata ticket second-ticket
    addresses, authdata = count:uint32 (type:uint16 data)*
    realm, component, key, data, ticket, second-ticket = length:uint32 bytes
"""

from __future__ import annotations

from dataclasses import dataclass, field

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


_MAGIC = b"\x05\x04"


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketGrantingTicket:
    """Times are seconds since the epoch. ``renew_till``: 0 if the ticket cannot be renewed."""

    start: int
    end: int
    renew_till: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketCache:
    """The ``principal`` of a cache and its ticket-granting ticket. ``content``: a cache with nothing but that ticket.

    Other programs add tickets for services to the file, which change nothing for us.
    """

    principal: str
    ticket: TicketGrantingTicket
    content: bytes = field(repr=False)


def read_ticket_cache(content: bytes) -> TicketCache:
    """Return the ticket-granting ticket of a cache. Raises FormatError if there is none."""
    if not content.startswith(_MAGIC):
        raise FormatError("is not a ticket cache (version 4 of the format)")
    reader = Reader(content, len(_MAGIC))
    reader.counted(2)
    name, realm = _principal(reader)
    head = content[: reader.position]
    while not reader.at_end:
        start = reader.position
        server, ticket = _credential(reader)
        if server == (f"krbtgt/{realm}", realm):
            kept = head + content[start : reader.position]
            return TicketCache(principal=f"{name}@{realm}", ticket=ticket, content=kept)
    raise FormatError(f"contains no ticket-granting ticket of {name}@{realm}")


def _principal(reader: Reader) -> tuple[str, str]:
    """Return name and realm."""
    reader.number(4)
    components = reader.number(4)
    realm = reader.text(4)
    if components > 16:  # no principal has more; a damaged number must not be counted to the end
        raise FormatError("is damaged")
    return "/".join(reader.text(4) for _ in range(components)), realm


def _credential(reader: Reader) -> tuple[tuple[str, str], TicketGrantingTicket]:
    """Return the service and the times of its ticket."""
    _principal(reader)
    server = _principal(reader)
    reader.number(2)
    reader.counted(4)
    auth, start, end, renew_till = (reader.number(4) for _ in range(4))
    reader.number(1)
    reader.number(4)
    for _ in range(2):  # addresses, authorization data
        for _ in range(reader.number(4)):
            reader.number(2)
            reader.counted(4)
    reader.counted(4)
    reader.counted(4)
    return server, TicketGrantingTicket(start=start or auth, end=end, renew_till=renew_till)
