"""The ticket cache of a login: the file, if it is on this machine, and its renewal with kinit."""

from __future__ import annotations

import fcntl
import logging
import os
import subprocess
import time
from base64 import b64decode
from pathlib import Path

from mm2.core.kerberos.ticket_cache import TicketCache, read_ticket_cache
from mm2.core.settings.kerberos import KerberosLogin
from mm2.kafka.sasl.kerberos import process_krb5_conf
from mm2.kafka.sasl.kerberos.renewal_times import renew_after

log = logging.getLogger("mm2.kerberos")

_KINIT_SECONDS = 10.0  # it asks the KDC once; without an answer it would wait for a minute


def newest(login: KerberosLogin) -> TicketCache:
    """Return the ticket that expires last: that of the settings, or of the file, if it is of the same principal."""
    assert login.ticket_cache is not None, "the login has no ticket cache"
    known = read_ticket_cache(b64decode(login.ticket_cache))
    try:
        found = read_ticket_cache(Path(login.ticket_cache_file or "").read_bytes())
    except (OSError, ValueError):  # on another machine, or being written: the node reports it if it stays so
        return known
    is_newer = found.principal == known.principal and found.ticket.end > known.ticket.end
    return found if is_newer else known


def renewed(login: KerberosLogin) -> TicketCache:
    """Renew the ticket in the file with ``kinit -R`` if it is time, as Java does, and return the newest ticket.

    Several processes with the same file renew it once. A failure is logged.
    """
    try:
        with Path(login.ticket_cache_file or "").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if seconds_until_renewal(newest(login), login, share=0.0) <= 0:
                _kinit(login)
    except OSError:
        pass  # the file is on another machine: the node renews it
    return newest(login)


def seconds_until_renewal(cache: TicketCache, login: KerberosLogin, *, share: float) -> float:
    """Return the seconds until the ticket of ``cache`` is renewed (`renew_after`)."""
    ticket = cache.ticket
    return renew_after(ticket.end - ticket.start, login.renewal, share, age=time.time() - ticket.start)


def _kinit(login: KerberosLogin) -> None:
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
