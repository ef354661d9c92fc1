"""The login of a Kerberos principal: its ticket, and the renewal of it.

This module is imported without the package gssapi, too, which is optional: what needs it is in `gss_exchange` and
`gss_credentials`.
"""

from __future__ import annotations

import ipaddress
import logging
import random
import socket
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from mm2.core.kerberos.krb5_conf import libdefault
from mm2.core.settings.kerberos import KerberosLogin
from mm2.kafka.sasl import credential_files
from mm2.kafka.sasl.kerberos import process_krb5_conf
from mm2.kafka.sasl.kerberos.gss_errors import KerberosError, expired
from mm2.kafka.sasl.kerberos.limited_calls import LimitedCalls
from mm2.kafka.sasl.kerberos.ticket_cache_file import TicketCacheFile, renew_after, retry_after
from mm2.kafka.sasl.login import CredentialsRejected, Exchange, LoginFailed

if TYPE_CHECKING:
    from mm2.kafka.sasl.kerberos.gss_credentials import Credentials

log = logging.getLogger(__name__)


def principal_host(host: str, krb5_conf: str | None) -> str:
    """Return the host name for the principal of the broker at ``host``.

    An address is replaced by its name, if it has one (Kafka's SaslChannelBuilder: InetAddress.getHostName). A short
    name is replaced by the long one that begins with it, such as b1.example.com for b1 (the JDK's PrincipalName),
    unless krb5.conf says dns_canonicalize_hostname = false. Blocks for the time that DNS takes.
    """
    if _is_address(host):
        return _name_of(host) or host
    if libdefault(krb5_conf or "", "dns_canonicalize_hostname") != "false":
        long = _name_of(host)
        if long is not None and long.lower().startswith(f"{host.lower()}."):
            return long.lower()
    return host.lower()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _name_of(host: str) -> str | None:
    try:
        return socket.gethostbyaddr(host)[0]
    except OSError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketTimes:
    """Limits of what waits for a KDC, in seconds."""

    ticket_s: float = 10.0
    """Maximum time to obtain a ticket: several KDCs, which the library asks after each other, a second for each."""
    wait_s: float = 2.0
    """Time that a connection waits for a newer ticket while it has a valid one."""
    exchange_s: float = 6.0
    """Maximum time for the host name and the ticket of a broker together, less than a connection's setup may take."""
    rejected_s: float = 10.0
    """Minimum age of a ticket that is replaced because a broker has rejected it."""


_TIMES = TicketTimes()

_MOST_SILENT = 4  # exchanges that wait for a KDC; others that need none must not wait behind them

TIMER = "kerberos-renewal"
THREAD = "kerberos-ticket"

_newest: WeakValueDictionary[tuple[str, str], KerberosTickets] = WeakValueDictionary()
"""The login that was used last for each principal and service. Others are of other configurations."""


def kerberos_login(settings: KerberosLogin) -> KerberosTickets:
    """Return the login for ``settings``. Raises LoginFailed without the package gssapi."""
    try:
        import gssapi  # noqa: F401, PLC0415 - optional
    except ImportError as error:
        raise LoginFailed(
            f"the Python package gssapi cannot be loaded ({error}): install it from requirements-kerberos.lock"
            " (docs/how-to/security.md)",
            "sasl.mechanism",
        ) from error
    return KerberosTickets(settings)


class KerberosTickets:
    """The ticket of one principal, renewed ahead of its expiry in the background.

    A. Tickets are in a cache of their own: other principals, and the default cache of the user, are not affected.
    B. Renewals in the background end when another login of the principal is used: this one has an earlier keytab. They
       resume with the next connection that uses it.
    C. A renewal that fails is repeated, with a growing pause; until the ticket expires, it stays in use, and a KDC that
       does not answer delays connections by `TicketTimes.wait_s` at most.
    D. After a broker or the KDC has rejected a ticket, another one is obtained: its key may have changed. A connection
       that ends during an authentication rejects nothing, and a rejection does not shorten the pause after a failure:
       requests with a wrong key can lock the account.
    """

    def __init__(
        self,
        settings: KerberosLogin,
        *,
        times: TicketTimes = _TIMES,
        name_of: Callable[[str, str | None], str] = principal_host,
    ) -> None:
        """``name_of`` returns the host name in a broker's principal, given its host and the krb5.conf."""
        self._settings = settings
        self._times = times
        self._name_of = name_of
        self._lock = threading.Lock()
        self._credentials: Credentials | None = None
        self._obtained = 0.0  # all times are on the monotonic clock, in seconds
        self._due = 0.0
        self._failures = 0
        self._failure: KerberosError | None = None  # of the last attempt
        self._used: list[object] = []  # the states of the files at the last attempt
        self._running: threading.Event | None = None  # set when the current renewal ends
        self._began = 0.0
        self._cache_file = None if settings.ticket_cache_file is None else TicketCacheFile(settings)
        self._ticket_calls = LimitedCalls(times.ticket_s, 1, settings.principal)
        self._exchange_calls = LimitedCalls(times.exchange_s, _MOST_SILENT, settings.principal)
        self._timer: threading.Timer | None = None
        _newest[settings.principal, settings.service_name] = self

    @property
    def is_due(self) -> bool:
        if not self._is_valid:
            return True
        return time.monotonic() >= self._due and (self._running is None or self._patience > 0)

    @property
    def is_newest(self) -> bool:
        """Whether no other login of this principal has been used since."""
        return _newest.get((self._settings.principal, self._settings.service_name)) is self

    @property
    def _is_valid(self) -> bool:
        return self._credentials is not None and time.monotonic() < self._credentials.end

    @property
    def _patience(self) -> float:
        """How long a connection with a valid ticket waits for the current renewal, in seconds."""
        return max(0.0, self._began + self._times.wait_s - time.monotonic())

    def renew(self) -> None:
        """Obtain a ticket, or a newer one. See `Login.renew`."""
        self._use()
        running = self.begin_renewal()
        if running is None:
            return
        running.wait(self._patience)
        if not self._is_valid:
            running.wait(self._times.ticket_s + self._times.wait_s)  # it ends earlier
        self._require_ticket()

    @property
    def renewal_failure(self) -> LoginFailed | None:
        """Why the newest renewal has failed; None: it has not."""
        return self._failure or (None if self._cache_file is None else self._cache_file.failure)

    def begin_renewal(self) -> threading.Event | None:
        """Start a renewal in the background if it is due, and return what is set when it ends; None: it is not due.

        Raises KerberosError without a valid ticket during the pause after a failure.
        """
        with self._lock:
            if not self.is_due:
                return None
            if self._running is None and (self._failure is None or self._may_retry):
                done = threading.Event()
                threading.Thread(target=self._renew, args=(done,), name=THREAD, daemon=True).start()
                self._running, self._began = done, time.monotonic()  # the thread sets it back with the lock
            running = self._running
        if running is None:
            self._require_ticket()
        return running

    @property
    def _may_retry(self) -> bool:
        """Whether the pause after a failure is over: it ends when a file was replaced."""
        return time.monotonic() >= self._due or self._states() != self._used

    def _states(self) -> list[object]:
        return [credential_files.state(file) for file in self._settings.files]

    def _require_ticket(self) -> None:
        with self._lock:
            if not self._is_valid:
                failure = self._failure or expired(self._settings.principal)
                raise KerberosError(str(failure), failure.key)  # several threads raise it

    def exchange(self, host: str) -> Exchange:
        """Begin an authentication. See `Login.exchange`."""
        from mm2.kafka.sasl.kerberos.gss_exchange import exchange  # noqa: PLC0415 - imports gssapi, which is optional

        self._use()
        settings, credentials = self._settings, self._credentials
        if credentials is None:
            raise KerberosError(f"there is no ticket of {settings.principal}")
        process_krb5_conf.use(settings.krb5_conf)
        limited = self._exchange_calls.together()
        name = limited(lambda: self._name_of(host, settings.krb5_conf))
        try:
            yield from exchange(credentials, settings.principal, settings.service_name, name, limited)
        except (CredentialsRejected, LoginFailed, ValueError):
            self._rejected()
            raise

    def _rejected(self) -> None:
        """Let the next connection obtain another ticket, but not during the pause after a failure."""
        with self._lock:
            if self._failure is None and time.monotonic() - self._obtained > self._times.rejected_s:
                self._due = 0.0

    def _use(self) -> None:
        """Resume renewals in the background if another login of the principal has been used since."""
        with self._lock:
            if self.is_newest:
                return
            _newest[self._settings.principal, self._settings.service_name] = self
            if self._credentials is not None and self._running is None:
                self._renew_later(max(0.0, self._due - time.monotonic()))

    def _renew(self, done: threading.Event) -> None:
        """Obtain a ticket, in a thread of its own."""
        settings = self._settings
        self._used = self._states()
        try:
            process_krb5_conf.use(settings.krb5_conf)
            credentials, seconds = self._ticket_calls(self._obtain)
        except KerberosError as error:
            self._failed(error)
        except Exception as error:
            log.exception("request for a ticket of %s failed", settings.principal)
            self._failed(KerberosError(f"no ticket for {settings.principal}: {type(error).__name__}: {error}"))
        else:
            self._succeeded(credentials, seconds)
        finally:
            done.set()

    def _failed(self, error: KerberosError) -> None:
        settings = self._settings
        with self._lock:
            self._running = None
            self._failures += 1
            self._failure = error
            pause = retry_after(self._failures, settings.renewal)
            self._due = time.monotonic() + pause
            if not self._is_valid:
                return
            if not error.is_lasting:
                self._renew_later(pause)
        log.warning("cannot renew the ticket of %s: %s; retrying in %.0f s", settings.principal, error, pause)

    def _succeeded(self, credentials: Credentials, seconds: float) -> None:
        with self._lock:
            self._running = None
            self._credentials, self._failures, self._failure = credentials, 0, None
            self._obtained = time.monotonic()
            self._due = self._obtained + seconds
            self._renew_later(seconds)
        log.info(
            "obtained a ticket of %s for %.0f s; renewing it in %.0f s",
            self._settings.principal,
            credentials.lifetime,
            seconds,
        )

    def _obtain(self) -> tuple[Credentials, float]:
        """Return a ticket, and the seconds until it is renewed.

        The ticket of the cache is used before the keytab, as in Krb5LoginModule.
        """
        from mm2.kafka.sasl.kerberos import gss_credentials  # noqa: PLC0415 - imports gssapi, which is optional

        settings = self._settings
        share = random.random()  # noqa: S311 - spreads load, hides nothing
        if self._cache_file is not None:
            try:
                cache = self._cache_file.renewed()
                found = gss_credentials.from_ticket_cache(cache.content, settings.principal)
            except KerberosError:
                if settings.keytab is None and settings.keytab_file is None:
                    raise
            else:
                return found, self._cache_file.seconds_until_renewal(cache, share=share)
        credentials = gss_credentials.from_keytab(settings)
        return credentials, renew_after(credentials.lifetime, settings.renewal, share)

    def _renew_later(self, seconds: float) -> None:
        """Restart the timer, unless another login of the principal is in use. The caller holds the lock."""
        if self._timer is not None:
            self._timer.cancel()
        if not self.is_newest:
            return
        self._timer = threading.Timer(seconds, _renew_if_needed, (weakref.ref(self),))
        self._timer.name, self._timer.daemon = TIMER, True
        self._timer.start()


def _renew_if_needed(reference: weakref.ref[KerberosTickets]) -> None:
    """Renew a ticket in the background, unless its login is no longer in use."""
    login = reference()
    if login is None or not login.is_newest:
        return
    try:
        login.begin_renewal()
    except LoginFailed as error:
        log.warning("%s", error)
