"""When tickets are renewed."""

from __future__ import annotations

from mm2.core.kerberos.ticket_cache import TicketGrantingTicket
from mm2.core.settings.kerberos import TicketRenewal


def renew_after(lifetime: float, renewal: TicketRenewal, share: float, *, age: float = 0.0) -> float:
    """Return the seconds from now until a ticket is renewed, 0 if it is time. ``lifetime``: of the ticket, of which
    ``age`` seconds are over. ``share``: random, from 0 to 1.

    As in Java (KerberosLogin.getRefreshTime), except for tickets that expire before ``min_seconds``: Java stops to
    renew them.
    """
    proposed = lifetime * min(1.0, renewal.window_factor + renewal.jitter * share) - age
    if renewal.min_seconds < lifetime - age:
        return max(proposed, renewal.min_seconds)
    return max(proposed, 0.0)


def is_window_reached(ticket: TicketGrantingTicket, renewal: TicketRenewal, now: float) -> bool:
    """Return whether a ticket is to be renewed at ``now``: after ``window_factor`` of its lifetime, while it can be.

    ``now``: in seconds since the epoch.
    """
    begin = ticket.start + (ticket.end - ticket.start) * min(1.0, renewal.window_factor)
    return begin <= now < ticket.renew_till


def retry_after(failures: int, renewal: TicketRenewal) -> float:
    """Return the seconds until the KDC is asked again after this many failures in a row: a second, doubled with each,
    up to ``min_seconds``. KDCs lock principals that fail often."""
    return min(2.0 ** min(failures - 1, 16), max(1.0, renewal.min_seconds))
