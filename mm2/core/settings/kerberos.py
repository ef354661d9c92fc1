"""Kerberos settings of a client (sasl.mechanism = GSSAPI)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketRenewal:
    """The times at which tickets are renewed, with Java's defaults (KerberosLogin).

    A ticket is renewed after ``window_factor`` of its lifetime, plus a random share of up to ``jitter``, but
    ``min_seconds`` after the last time at the earliest. ``kinit``: the program that renews ticket caches.
    """

    window_factor: float = 0.8
    jitter: float = 0.05
    min_seconds: float = 60.0
    kinit: str = "/usr/bin/kinit"


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosLogin:
    """The principal of a client, with its keys, its tickets, or both: then the keys are used without a valid ticket.

    ``service_name`` is the primary of the brokers' principals. ``principal`` includes the realm. ``keytab_file`` and
    ``ticket_cache_file`` are read again for each ticket (`mm2.kafka.sasl.credential_files`). ``keytab``: the content,
    in base64, of a keytab that is no regular file, such as a pipe. ``krb5_conf`` is the text of krb5.conf, without
    includes; None: there is none.
    """

    mechanism: Literal["GSSAPI"] = "GSSAPI"
    service_name: str
    principal: str
    keytab: str | None = field(default=None, repr=False)
    keytab_file: str | None = None
    ticket_cache_file: str | None = None
    krb5_conf: str | None = field(default=None, repr=False)
    renewal: TicketRenewal = field(default_factory=TicketRenewal)

    @property
    def user(self) -> str:
        return self.principal

    @property
    def secrets(self) -> tuple[str, ...]:
        return () if self.keytab is None else (self.keytab,)

    @property
    def files(self) -> tuple[str, ...]:
        """The files that are read again."""
        return tuple(file for file in (self.keytab_file, self.ticket_cache_file) if file is not None)
