"""Kerberos settings of a client (sasl.mechanism = GSSAPI)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosLogin:
    """The principal of a client, with its key or its tickets. ``service_name`` is the primary of the brokers'
    principals.

    ``keytab`` and ``ticket_cache`` are the contents of files, in base64; ``krb5_conf`` is the text of krb5.conf.
    """

    mechanism: Literal["GSSAPI"] = "GSSAPI"
    service_name: str
    principal: str | None = None
    keytab: str | None = field(default=None, repr=False)
    ticket_cache: str | None = field(default=None, repr=False)
    krb5_conf: str | None = field(default=None, repr=False)

    @property
    def user(self) -> str:
        return self.principal or ""

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(secret for secret in (self.keytab, self.ticket_cache) if secret)
