"""The messages of SASL GSSAPI (RFC 4752), without a security layer, as Kafka's clients and brokers use them.

Imported for the first authentication: the package gssapi is optional.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gssapi

from mm2.kafka.sasl.kerberos.gss_credentials import Credentials, text_of
from mm2.kafka.sasl.kerberos.gss_errors import of_service
from mm2.kafka.sasl.login import Exchange

_NO_LAYER = 1  # bit of the security layers that the broker offers, and the choice of the client
_FLAGS = gssapi.RequirementFlag
_REQUIRED = [_FLAGS.mutual_authentication, _FLAGS.integrity, _FLAGS.replay_detection, _FLAGS.out_of_sequence_detection]

Limited = Callable[[Callable[[], Any]], Any]
"""Runs a call of the library, which may ask the KDC, and limits its time."""


def exchange(credentials: Credentials, principal: str, service: str, host: str, limited: Limited) -> Exchange:
    """Authenticate as ``principal`` to ``service`` at ``host``, which authenticates itself, too.

    Raises KerberosError, and ValueError for an invalid answer of the broker.
    """
    try:
        yield from _exchange(credentials, principal, f"{service}@{host}", limited)
    except gssapi.exceptions.GSSError as error:
        raise of_service(error.maj_code, error.min_code, text_of(error), principal, f"{service}/{host}") from error


def _exchange(credentials: Credentials, principal: str, target: str, limited: Limited) -> Exchange:
    name = gssapi.Name(target, gssapi.NameType.hostbased_service)
    context = gssapi.SecurityContext(
        name=name, creds=credentials.gss, usage="initiate", mech=gssapi.MechType.kerberos, flags=_REQUIRED
    )
    token = limited(context.step) or b""
    while not context.complete:
        answer = yield token
        token = limited(partial(context.step, answer)) or b""
    if not context.actual_flags & _FLAGS.mutual_authentication:
        raise ValueError("the broker has not authenticated itself")
    offer = yield token  # empty: the broker's proof needs no reply
    yield from _without_layer(context, offer, principal)


def _without_layer(context: Any, offer: bytes, principal: str) -> Exchange:
    try:
        layers = context.unwrap(offer).message
    except gssapi.exceptions.GSSError as error:
        raise ValueError(f"GSSAPI message: {text_of(error)}") from error
    if len(layers) != 4:
        raise ValueError("GSSAPI message with an invalid length")
    if not layers[0] & _NO_LAYER:
        raise ValueError("the broker requires a GSSAPI security layer, which Kafka does not support")
    choice = bytes((_NO_LAYER, 0, 0, 0)) + principal.encode()
    answer = yield context.wrap(choice, False).message
    if answer:
        raise ValueError("the broker answered the last GSSAPI message with a challenge")
