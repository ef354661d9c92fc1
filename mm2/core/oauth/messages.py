r"""Messages of SASL OAUTHBEARER (RFC 7628; Kafka's OAuthBearerClientInitialResponse).

::

    client:  n,, ^A auth=Bearer TOKEN ^A {NAME=VALUE ^A} ^A        ^A is the byte 1
    broker:  empty if it accepts the token, else JSON: {"status":"invalid_token", …}
    client:  ^A                                                    after an error; then the broker rejects
"""

from __future__ import annotations

import re

from mm2.core.settings.oauth import NamedTexts
from mm2.core.wire.json_bytes import decode_json

SEPARATOR = "\x01"

ERROR_RECEIVED = SEPARATOR.encode()
"""The client's answer to an error."""

_RESERVED = "auth"
_NAME = re.compile("[A-Za-z]+")
_VALUE = re.compile(r"[\x21-\x7E \t\r\n]+")
_TOKEN = re.compile(r"[-_~+/.A-Za-z0-9]+=*")


def extension_problem(name: str, value: str) -> str | None:
    """Return the rule that a SASL extension violates; None: it is valid."""
    if name == _RESERVED or not _NAME.fullmatch(name):
        return f"the name of an extension must consist of letters, and not be {_RESERVED}"
    if not _VALUE.fullmatch(value):
        return f"the value of extension {name} must consist of printable ASCII characters, and not be empty"
    return None


def initial_response(token: str, extensions: NamedTexts) -> bytes:
    """Return the first message of the client. Raises ValueError for a token or an extension that cannot be sent."""
    if not _TOKEN.fullmatch(token):
        raise ValueError("the token contains characters that OAUTHBEARER cannot transmit (RFC 6750)")
    for name, value in extensions:
        if (problem := extension_problem(name, value)) is not None:
            raise ValueError(problem)
    pairs = "".join(f"{name}={value}{SEPARATOR}" for name, value in extensions)
    return f"n,,{SEPARATOR}auth=Bearer {token}{SEPARATOR}{pairs}{SEPARATOR}".encode()


def broker_error(answer: bytes) -> str:
    """Return a broker's error for a message: ``invalid_token``, with scope and configuration if the broker names
    them."""
    text = answer.decode("utf-8", "replace")
    try:
        fields = decode_json(answer, "error of a broker", surrogates=True)
    except ValueError:
        fields = None
    if not isinstance(fields, dict) or "status" not in fields:
        return text
    more = ", ".join(f"{name}: {fields[name]}" for name in ("scope", "openid-configuration") if name in fields)
    return f"{fields['status']}{f' ({more})' if more else ''}"
