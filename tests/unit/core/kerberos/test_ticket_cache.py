from __future__ import annotations

import pytest

from mm2.core.kerberos.ticket_cache import TicketGrantingTicket, read_ticket_cache
from mm2.core.wire.formats import FormatError
from tests.unit.core.kerberos.formats import cache_of, tgt_of

ALICE = "alice/admin@MM2.TEST"
TGT = tgt_of(ALICE)


def test_ticket_granting_ticket() -> None:
    cache = read_ticket_cache(cache_of(ALICE, TGT))
    assert cache.principal == ALICE
    assert cache.ticket == TicketGrantingTicket(start=2_000_000_000, end=2_000_036_000, renew_till=2_000_600_000)


def test_tickets_for_services_do_not_count() -> None:
    """A program that uses the cache adds them to the file."""
    alone = read_ticket_cache(cache_of(ALICE, TGT))
    among_others = read_ticket_cache(cache_of(ALICE, "kafka/a@MM2.TEST", TGT, "kafka/b@MM2.TEST"))
    assert among_others == alone
    assert alone.content == cache_of(ALICE, TGT)


def test_the_ticket_of_another_realm_does_not_count() -> None:
    with pytest.raises(FormatError, match=f"contains no ticket-granting ticket of {ALICE}"):
        read_ticket_cache(cache_of(ALICE, "krbtgt/OTHER@MM2.TEST"))


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"", "is not a ticket cache"),
        (b"\x05\x03", "is not a ticket cache"),
        (cache_of(ALICE, TGT)[:-3], "is incomplete"),
        (b"\x05\x04\x00\x00" + b"\x00\x00\x00\x01\xff\xff\xff\xff\x00\x00\x00\x01A", "is damaged"),
    ],
)
def test_other_contents(content: bytes, rule: str) -> None:
    with pytest.raises(FormatError, match=rule):
        read_ticket_cache(content)
