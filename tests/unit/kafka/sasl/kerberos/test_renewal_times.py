from __future__ import annotations

import pytest

from mm2.core.kerberos.ticket_cache import TicketGrantingTicket
from mm2.core.settings.kerberos import TicketRenewal
from mm2.kafka.sasl.kerberos.ticket_cache_file import is_window_reached, renew_after, retry_after

DAY = 86_400.0
JAVA = TicketRenewal()


@pytest.mark.parametrize(
    ("lifetime", "age", "share", "seconds"),
    [
        (DAY, 0.0, 0.0, 0.8 * DAY),
        (DAY, 0.0, 1.0, 0.85 * DAY),
        (DAY, DAY / 2, 0.0, 0.3 * DAY),
        (DAY, 0.9 * DAY, 0.0, 60.0),  # Java waits min.time.before.relogin, too
        (70.0, 0.0, 0.0, 60.0),
        (30.0, 0.0, 0.0, 24.0),  # shorter than that time: Java stops
        (30.0, 29.0, 0.0, 0.0),
    ],
)
def test_time_of_renewal(lifetime: float, age: float, share: float, seconds: float) -> None:
    assert renew_after(lifetime, JAVA, share, age=age) == pytest.approx(seconds)


def test_a_factor_above_one_does_not_outlive_the_ticket() -> None:
    assert renew_after(DAY, TicketRenewal(window_factor=3.0), 0.0) == DAY


def test_pauses_after_failures() -> None:
    assert [retry_after(failures, JAVA) for failures in (1, 2, 3, 7, 5000)] == [1.0, 2.0, 4.0, 60.0, 60.0]
    assert retry_after(9, TicketRenewal(min_seconds=0.0)) == 1.0


@pytest.mark.parametrize(
    ("factor", "renew_till", "now", "is_reached"),
    [
        (0.8, 9_000, 1_799, False),
        (0.8, 9_000, 1_800, True),
        (3.0, 9_000, 1_999, False),
        (3.0, 9_000, 2_000, True),
        (0.8, 1_900, 1_899, True),
        (0.8, 1_900, 1_900, False),  # it cannot be renewed any longer
        (0.8, 0, 1_900, False),  # it never could
    ],
)
def test_the_window_of_a_renewal(factor: float, renew_till: int, now: float, is_reached: bool) -> None:
    ticket = TicketGrantingTicket(start=1_000, end=2_000, renew_till=renew_till)
    assert is_window_reached(ticket, TicketRenewal(window_factor=factor), now) is is_reached
