"""The ticket cache of a login, and its renewal with kinit if the file is on this machine."""

from __future__ import annotations

import fcntl
import logging
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from mm2.core.kerberos.ticket_cache import TicketCache, TicketGrantingTicket, read_ticket_cache
from mm2.core.settings.kerberos import KerberosLogin, TicketRenewal
from mm2.kafka.sasl import credential_files
from mm2.kafka.sasl.kerberos import process_krb5_conf
from mm2.kafka.sasl.kerberos.gss_errors import KerberosError


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


log = logging.getLogger(__name__)

_KINIT_SECONDS = 5.0
"""Maximum time of kinit, which would wait for a silent KDC for a minute. The ticket at hand is used afterwards, so this
is less than a login waits for a ticket."""


class TicketCacheFile:
    """The ticket cache of one login, and the pause after a renewal that has failed."""

    def __init__(
        self,
        login: KerberosLogin,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``clock``: the system's clock, with which the times of tickets are compared; ``monotonic``: for pauses."""
        assert login.ticket_cache_file is not None, "the login has no ticket cache"
        self._login = login
        self._clock = clock
        self._monotonic = monotonic
        self._file = login.ticket_cache_file
        self._known: TicketCache | None = None  # the ticket that expires last, of those read
        self._failures = 0  # of kinit, in a row
        self._not_before = 0.0  # of kinit, on the monotonic clock, in seconds
        self.failure: KerberosError | None = None  # why the newest run of kinit brought no later ticket

    def renewed(self) -> TicketCache:
        """Renew the ticket in the file with ``kinit -R`` if it is time, as Java does, and return the newest ticket.

        Of several processes with the same file one renews it; the others use the ticket at hand meanwhile. A failure is
        logged, and repeated after a growing pause. Raises KerberosError if there is no ticket.
        """
        login, found = self._login, self._newest()
        if not is_window_reached(found.ticket, login.renewal, self._clock()) or self._monotonic() < self._not_before:
            return found
        if credential_files.is_delivered(self._file):
            return found  # the node renews it
        try:
            with Path(self._file).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found = self._newest()  # another process may have renewed it
                if is_window_reached(found.ticket, login.renewal, self._clock()):
                    found = self._renewed(found)
        except OSError:
            pass  # another process renews or replaces it
        return found

    def seconds_until_renewal(self, cache: TicketCache, *, share: float) -> float:
        """Return the seconds until `renewed` is to be called again (`renew_after`), at least the pause."""
        ticket, renewal = cache.ticket, self._login.renewal
        seconds = renew_after(ticket.end - ticket.start, renewal, share, age=self._clock() - ticket.start)
        return max(seconds, retry_after(max(1, self._failures), renewal))

    def _newest(self) -> TicketCache:
        """Return the ticket that expires last: of the file, or the one known from before, while it cannot be read."""
        try:
            found = self._read()
        except (OSError, ValueError) as error:  # it may be being written; the node reports it if it stays so
            if self._known is not None:
                return self._known
            reason = f"cannot be read ({error.strerror})" if isinstance(error, OSError) else str(error)
            raise KerberosError(f"ticket cache {self._file} {reason}") from error
        if self._known is None or found.ticket.end > self._known.ticket.end:
            self._known = found
        return self._known

    def _read(self) -> TicketCache:
        found = read_ticket_cache(credential_files.read(self._file))
        if found.principal != self._login.principal:
            raise ValueError(f"contains the ticket of {found.principal}, not of {self._login.principal}")
        return found

    def _renewed(self, earlier: TicketCache) -> TicketCache:
        """Run kinit. It has failed if there is no later ticket, whatever it says."""
        words = _kinit(self._login)
        found = self._newest()
        is_later = found.ticket.end > earlier.ticket.end
        self._failures = 0 if is_later else self._failures + 1
        reason = f"kinit has not renewed the ticket of {self._login.principal}: {words or 'it ends as before'}"
        self.failure = None if is_later else KerberosError(reason, "sasl.kerberos.kinit.cmd")
        self._not_before = self._monotonic() + (
            retry_after(self._failures, self._login.renewal) if self._failures > 0 else 0.0
        )
        return found


def _kinit(login: KerberosLogin) -> str:
    """Renew the ticket; return why that has failed, or an empty string."""
    command = [login.renewal.kinit, "-R", "-c", str(login.ticket_cache_file)]
    env = {**os.environ, "KRB5_CONFIG": process_krb5_conf.use(login.krb5_conf)}
    try:
        done = subprocess.run(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_KINIT_SECONDS,
            check=False,
        )
        words = "" if done.returncode == 0 else " ".join(done.stdout.split()) or f"exit code {done.returncode}"
    except (OSError, subprocess.TimeoutExpired) as error:
        words = str(error)
    if words:
        log.warning(
            "cannot renew the ticket of %s: %s: %s (check sasl.kerberos.kinit.cmd)",
            login.principal,
            " ".join(command),
            words,
        )
    else:
        log.info("renewed the ticket of %s in %s", login.principal, login.ticket_cache_file)
    return words
