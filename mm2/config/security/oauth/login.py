"""sasl.mechanism = OAUTHBEARER: the login module and sasl.login.callback.handler.class to an OAuthLogin."""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from mm2.config.grammar.secrets import is_secret
from mm2.config.grammar.values import Value
from mm2.config.keys import declaration
from mm2.config.keys.class_keys import LOGIN_HANDLER, UNSECURED_HANDLER, is_own
from mm2.config.keys.class_loading import ClassProblem, load_own
from mm2.config.security.oauth.endpoint import read_source
from mm2.config.security.oauth.keys import OAUTH, OAuthKeys
from mm2.config.security.oauth.properties import OAuthProperties
from mm2.config.security.sasl_properties import JAAS, SaslProperties
from mm2.core.oauth.messages import extension_problem
from mm2.core.settings.oauth import NamedTexts, OAuthLogin, RefreshSettings, TokenPlugin, TokenSource, UnsecuredToken

LOGIN_MODULE = f"{OAUTH}.OAuthBearerLoginModule"

_EXAMPLE = f"{LOGIN_MODULE} required;"
_EXTENSION = "extension_"


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


def read_oauth_login(sasl: SaslProperties) -> OAuthLogin | None:
    """Return how the client obtains tokens; None after an error."""
    module = sasl.login_module((LOGIN_MODULE,), _EXAMPLE, "")
    if module is None:
        return None
    keys = declaration.read(OAuthKeys, sasl.properties, sasl.problems)
    oauth = OAuthProperties(sasl, keys, module.options)
    source, prefix = _source(oauth)
    extensions = _extensions(oauth, prefix)
    if source is None or extensions is None:
        return None
    return OAuthLogin(
        source=source,
        extensions=extensions,
        sub_claim=keys.sub_claim_name or "sub",
        refresh=RefreshSettings(
            window_factor=keys.refresh_window_factor,
            window_jitter=keys.refresh_window_jitter,
            min_period_seconds=keys.refresh_min_period_seconds,
            buffer_seconds=keys.refresh_buffer_seconds,
            retry_backoff_ms=keys.retry_backoff_ms,
            retry_backoff_max_ms=keys.retry_backoff_max_ms,
        ),
    )


def _source(oauth: OAuthProperties) -> tuple[TokenSource | None, str]:
    """Return the source of tokens, and the prefix of the options that are SASL extensions."""
    handler = oauth.keys.login_callback_handler_class
    if is_own(handler):
        return _plugin(oauth, handler), _EXTENSION
    if handler in ("", UNSECURED_HANDLER):
        if not handler and not any(option.startswith(UNSECURED) for option in oauth.options):
            oauth.refuse_mechanism(
                LOGIN_HANDLER.name, f"add {{key}} = {LOGIN_HANDLER.default}, or a class in Python as module:Class"
            )
            return None, _EXTENSION
        return read_unsecured(oauth), f"{UNSECURED}Extension_"
    if handler not in LOGIN_HANDLER.built_in:
        _refuse_handler(oauth.sasl.properties[LOGIN_HANDLER.name], oauth, handler)
        return None, _EXTENSION
    return read_source(oauth), _EXTENSION


def _refuse_handler(line: Value, oauth: OAuthProperties, handler: str) -> None:
    close = get_close_matches(handler, LOGIN_HANDLER.built_in, n=1, cutoff=0.9)
    line.refuse(
        oauth.sasl.problems,
        "not a class of Kafka, and other Java classes cannot be loaded",
        f"did you mean {close[0]}?"
        if close
        else f"write {LOGIN_HANDLER.default}, or a class in Python as module:Class (docs/how-to/extending.md)",
    )


def _plugin(oauth: OAuthProperties, handler: str) -> TokenPlugin | None:
    sasl = oauth.sasl
    try:
        load_own(handler, LOGIN_HANDLER, Path(sasl.problems.file).parent)
    except ClassProblem as problem:
        sasl.properties[LOGIN_HANDLER.name].refuse(sasl.problems, problem.rule, problem.fix)
        return None
    properties = {
        name: value.text for name, value in sorted(sasl.properties.items()) if name.startswith("sasl.") and name != JAAS
    }
    return TokenPlugin(
        import_string=handler,
        options=_sorted(oauth.options),
        properties=tuple(properties.items()),
        secrets=tuple(
            text for name, text in {**properties, **oauth.options}.items() if is_secret(name, text) and text.strip()
        ),
    )


def _extensions(oauth: OAuthProperties, prefix: str) -> NamedTexts | None:
    found = _sorted(
        {name.removeprefix(prefix): text for name, text in oauth.options.items() if name.startswith(prefix)}
    )
    for name, text in found:
        if (rule := extension_problem(name, text)) is not None:
            oauth.sasl.refuse_login(f"option {prefix}{name}: {rule}", "correct or remove the option")
            return None
    return found


def _sorted(texts: Mapping[str, str]) -> NamedTexts:
    return tuple(sorted(texts.items()))
