"""Properties of clients with sasl.mechanism = GSSAPI."""

from __future__ import annotations

from functools import partial

from mm2.config.grammar.java_types import Double, Long, OptionalString, String
from mm2.config.keys.declaration import KeyModel, flow_key
from mm2.core.settings.kerberos import TicketRenewal

_key = partial(flow_key, local=True)
_RENEWAL = TicketRenewal()


class KerberosKeys(KeyModel):
    """The service that clients log in to, and when they renew their tickets. The defaults are Java's."""

    service_name: OptionalString = _key(
        "sasl.kerberos.service.name",
        None,
        "First part of the brokers' principals, such as `kafka` of `kafka/host@REALM`. `serviceName` of the login "
        "module can be used instead.",
    )
    kinit_cmd: String = _key(
        "sasl.kerberos.kinit.cmd",
        _RENEWAL.kinit,
        "Program that renews a ticket cache, called with `-R`; not used with keytabs.",
    )
    window_factor: Double = _key(
        "sasl.kerberos.ticket.renew.window.factor",
        _RENEWAL.window_factor,
        "Share of a ticket's lifetime after which it is renewed.",
    )
    jitter: Double = _key(
        "sasl.kerberos.ticket.renew.jitter",
        _RENEWAL.jitter,
        "Random part of the lifetime, from 0 to this, that is added to the share.",
    )
    min_time_before_relogin: Long = _key(
        "sasl.kerberos.min.time.before.relogin",
        int(_RENEWAL.min_seconds * 1000),
        "Minimum time in milliseconds between two renewals, unless the ticket expires before.",
    )
