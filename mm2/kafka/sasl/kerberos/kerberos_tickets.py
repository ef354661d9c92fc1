"""The login of a Kerberos principal: its ticket, and the renewal of it."""

from __future__ import annotations

import logging
import random
import threading
import time
import weakref
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from mm2.core.settings.kerberos import KerberosLogin
from mm2.kafka.sasl.kerberos import process_krb5_conf, ticket_cache_file
from mm2.kafka.sasl.kerberos.gss_errors import KerberosError
from mm2.kafka.sasl.kerberos.host_names import principal_host
from mm2.kafka.sasl.kerberos.limited_calls import LimitedCalls
from mm2.kafka.sasl.kerberos.renewal_times import renew_after, retry_after
from mm2.kafka.sasl.login import Exchange, Login, LoginFailed

if TYPE_CHECKING:
    from mm2.kafka.sasl.kerberos.gss_credentials import Credentials

log = logging.getLogger("mm2.kerberos")

_TICKET_SECONDS = 10.0
"""Maximum time to obtain a ticket: several KDCs, which the library asks after each other, a second for each."""

_EXCHANGE_SECONDS = 6.0
"""Maximum time for the ticket of a broker, less than the setup of a connection may take."""

_MOST_SILENT = 4  # exchanges that wait for a KDC; others that need none must not wait behind them

_REJECTED_SECONDS = 10.0
"""Minimum age of a ticket that is replaced because a broker has rejected it."""

TIMER = "kerberos-renewal"

_newest: WeakValueDictionary[tuple[str, str], KerberosTickets] = WeakValueDictionary()
"""The login that was created last for each principal and service. Others are of earlier configurations."""


def kerberos_login(settings: KerberosLogin) -> Login:
    """Return the login for ``settings``. Raises LoginFailed without the package gssapi."""
    try:
        import gssapi  # noqa: F401, PLC0415 - optional
    except ImportError as error:
        raise LoginFailed(
            f"the Python package gssapi cannot be loaded ({error}): run pip install 'mm2[kerberos]'", "sasl.mechanism"
        ) from error
    return KerberosTickets(settings)


class KerberosTickets:
    """The ticket of one principal, renewed ahead of its expiry in the background.

    A. Tickets are in a cache of their own: other principals, and the default cache of the user, are not affected.
    B. Renewals in the background end when there is a newer login of the principal: this one has an earlier keytab.
    C. A renewal that fails is repeated, with a growing pause; until the ticket expires, it stays in use.
    D. After a broker has rejected a ticket, another one is obtained: its key may have changed.
    """

    def __init__(self, settings: KerberosLogin) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._credentials: Credentials | None = None
        self._obtained = 0.0  # all times are on the monotonic clock, in seconds
        self._due = 0.0
        self._failures = 0
        self._failure: KerberosError | None = None  # of the last attempt
        self._ticket_calls = LimitedCalls(_TICKET_SECONDS, 1, settings.principal)
        self._exchange_calls = LimitedCalls(_EXCHANGE_SECONDS, _MOST_SILENT, settings.principal)
        self._timer: threading.Timer | None = None
        _newest[settings.principal, settings.service_name] = self

    @property
    def is_due(self) -> bool:
        return not self._is_valid or time.monotonic() >= self._due

    @property
    def is_newest(self) -> bool:
        """Whether no other login of this principal has been created since."""
        return _newest.get((self._settings.principal, self._settings.service_name)) is self

    @property
    def _is_valid(self) -> bool:
        return self._credentials is not None and time.monotonic() < self._credentials.end

    def renew(self) -> None:
        """Obtain a ticket, or a newer one. See `Login.renew`."""
        with self._lock:
            if not self.is_due:
                return
            if time.monotonic() >= self._due:
                self._renew()
            if not self._is_valid:
                assert self._failure is not None, "without a failure there is a ticket"
                raise KerberosError(str(self._failure), self._failure.key)

    def exchange(self, host: str) -> Exchange:
        """Begin an authentication. See `Login.exchange`."""
        from mm2.kafka.sasl.kerberos.gss_exchange import exchange  # noqa: PLC0415 - imports gssapi, which is optional

        settings, credentials = self._settings, self._credentials
        if credentials is None:
            raise KerberosError(f"there is no ticket of {settings.principal}")
        process_krb5_conf.use(settings.krb5_conf)
        name = self._exchange_calls(lambda: principal_host(host, settings.krb5_conf))
        is_accepted = False
        try:
            yield from exchange(credentials, settings.principal, settings.service_name, name, self._exchange_calls)
            is_accepted = True
        finally:
            if not is_accepted and time.monotonic() - self._obtained > _REJECTED_SECONDS:
                self._due = 0.0

    def _renew(self) -> None:
        settings = self._settings
        process_krb5_conf.use(settings.krb5_conf)
        try:
            credentials, seconds = self._ticket_calls(self._obtain)
        except KerberosError as error:
            self._failures += 1
            self._failure = error
            pause = retry_after(self._failures, settings.renewal)
            self._due = time.monotonic() + pause
            if self._is_valid:
                log.warning("cannot renew the ticket of %s: %s; retrying in %.0f s", settings.principal, error, pause)
                if not error.is_lasting:
                    self._renew_later(pause)
            return
        self._credentials, self._failures, self._failure = credentials, 0, None
        self._obtained = time.monotonic()
        self._due = self._obtained + seconds
        log.info(
            "obtained a ticket of %s for %.0f s; renewing it in %.0f s",
            settings.principal,
            credentials.lifetime,
            seconds,
        )
        self._renew_later(seconds)

    def _obtain(self) -> tuple[Credentials, float]:
        """Return a ticket, and the seconds until it is renewed.

        The ticket of the cache is used before the keytab, as in Krb5LoginModule.
        """
        from mm2.kafka.sasl.kerberos import gss_credentials  # noqa: PLC0415 - imports gssapi, which is optional

        settings = self._settings
        share = random.random()  # noqa: S311 - spreads load, hides nothing
        if settings.ticket_cache is not None:
            try:
                cache = ticket_cache_file.renewed(settings)
                found = gss_credentials.from_ticket_cache(cache.content, settings.principal)
            except KerberosError:
                if settings.keytab is None:
                    raise
            else:
                seconds = ticket_cache_file.seconds_until_renewal(cache, settings, share=share)
                return found, max(seconds, retry_after(1, settings.renewal))
        credentials = gss_credentials.from_keytab(settings)
        return credentials, renew_after(credentials.lifetime, settings.renewal, share)

    def _renew_later(self, seconds: float) -> None:
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
        login.renew()
    except LoginFailed as error:
        log.warning("%s", error)
