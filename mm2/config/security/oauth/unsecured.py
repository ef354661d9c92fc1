"""Tokens without signature from options of the login module (KIP-255; OAuthBearerUnsecuredLoginCallbackHandler)."""

from __future__ import annotations

import json

from mm2.config.security.oauth.properties import OAuthProperties
from mm2.core.settings.oauth import UnsecuredToken

UNSECURED = "unsecuredLogin"

_LIFETIME = f"{UNSECURED}LifetimeSeconds"
_PRINCIPAL = f"{UNSECURED}PrincipalClaimName"
_STRING, _NUMBER, _LIST = (f"{UNSECURED}{kind}Claim_" for kind in ("String", "Number", "List"))
_DIGITS = 9  # of a lifetime: 30 years
_DIGITS = 9  # of a lifetime: 30 years
_CALCULATED = ("iat", "exp")


class _Rule(Exception):
    """What is wrong with the options."""


def read_unsecured(oauth: OAuthProperties) -> UnsecuredToken | None:
    """Return the claims of the options; None after an error. A warning says that only tests may use them."""
    try:
        lifetime, claims = _lifetime(oauth), _claims(oauth)
    except _Rule as rule:
        oauth.sasl.refuse_login(str(rule), f'write options such as {_STRING}sub="USER"')
        return None
    oauth.warn_options(
        "tokens without signature are for tests only: everyone can issue them",
        f"add {oauth.key('sasl.login.callback.handler.class')} to use an identity provider",
    )
    return UnsecuredToken(claims=json.dumps(claims, sort_keys=True), lifetime_seconds=lifetime)


def _claims(oauth: OAuthProperties) -> dict[str, object]:
    found: dict[str, object] = {}
    for option, text in oauth.options.items():
        prefix = next((one for one in (_STRING, _NUMBER, _LIST) if option.startswith(one) and option != one), None)
        if prefix is None:
            continue
        name = option.removeprefix(prefix)
        if name in _CALCULATED:
            raise _Rule(f"option {option} must not be set: the claim is calculated")
        found[name] = {_STRING: lambda _, text: text, _NUMBER: _number, _LIST: _list}[prefix](option, text)
    principal = oauth.option(_PRINCIPAL) or "sub"
    if not isinstance(found.get(principal), str) or not str(found[principal]).strip():
        raise _Rule(f"must have the option {_STRING}{principal}, the name of the principal")
    return found


def _lifetime(oauth: OAuthProperties) -> int:
    text = oauth.options.get(_LIFETIME, "3600")
    if not text.isascii() or not text.isdigit() or len(text) > _DIGITS or int(text) == 0:
        raise _Rule(f"option {_LIFETIME} must be a whole number of at least 1")
    return int(text)


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise _Rule(f"option {option} must be a number") from error


def _list(_: str, text: str) -> list[str]:
    """Return the elements; the first character is the delimiter."""
    return text[1:].split(text[0]) if len(text) > 1 else []
