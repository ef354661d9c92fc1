"""security.protocol, ssl.* and sasl.* of one Java client to the settings of a client here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from mm2.config.grammar.java_types import one_of_words
from mm2.config.grammar.problems import ProblemLog, to_copy
from mm2.config.grammar.values import Properties
from mm2.config.keys import declaration
from mm2.config.keys.class_keys import LOGIN_HANDLER
from mm2.config.security.kerberos.login import read_kerberos_login
from mm2.config.security.oauth.login import LOGIN_MODULE, read_oauth_login
from mm2.config.security.property_names import sibling
from mm2.config.security.sasl_properties import SaslProperties
from mm2.config.security.security_keys import REFUSED_ALWAYS, REFUSED_SASL, SecurityKeys
from mm2.config.security.tls.settings import read_tls
from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.sasl import PasswordLogin, SaslLogin, SaslMechanism
from mm2.core.settings.tls import TlsSettings

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def read_password_login(sasl: SaslProperties) -> PasswordLogin | None:
    """Return user and password of the login module; None after an error."""
    name = _PLAIN if sasl.mechanism is SaslMechanism.PLAIN else _SCRAM
    example, placeholders = f'{name} required username="USER" password="PASSWORD";', "USER and PASSWORD"
    module = sasl.login_module((name,), example, placeholders)
    if module is None:
        return None
    missing = [option for option in ("username", "password") if option not in module.options]
    if missing:
        sasl.refuse_login(
            f"must have the option{'s' if missing[1:] else ''} {' and '.join(missing)}",
            sasl.fix(example, placeholders),
            line=module.line,
        )
        return None
    return PasswordLogin(
        mechanism=sasl.mechanism,
        username=module.options["username"],
        password=module.options["password"],
        token_auth=name == _SCRAM and module.options.get("tokenauth", "").lower() == "true",
    )


_READERS: Mapping[SaslMechanism, Callable[[SaslProperties], SaslLogin | None]] = {
    SaslMechanism.GSSAPI: read_kerberos_login,
    SaslMechanism.PLAIN: read_password_login,
    SaslMechanism.SCRAM_SHA_256: read_password_login,
    SaslMechanism.SCRAM_SHA_512: read_password_login,
    SaslMechanism.OAUTHBEARER: read_oauth_login,
}
"""The supported mechanisms."""

_SUPPORTED = one_of_words(tuple(_READERS))

_UNSUPPORTED = {
    "AWS_MSK_IAM": (
        "use OAUTHBEARER with the class of docs/how-to/extending.md that signs tokens for Amazon MSK:"
        + to_copy(
            "{level}sasl.mechanism = OAUTHBEARER",
            f"{{level}}sasl.jaas.config = {LOGIN_MODULE} required;",
            f"{{level}}{LOGIN_HANDLER.name} = msk_iam:MskIamTokens",
        )
    ),
}
"""Mechanisms that Java clients support and this program does not, and what to use instead."""

_CLOSE = 0.8
"""Ratio from which an unknown mechanism counts as misspelt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """How one client connects."""

    protocol: SecurityProtocol
    tls: TlsSettings
    sasl: SaslLogin | None


def read_security(properties: Properties, problems: ProblemLog, credentials: dict[str, str]) -> Security:
    """Return how a client with ``properties`` connects. ``credentials``: see `SaslProperties`.

    Settings that cannot be applied are errors: no connection is less secure than requested. Settings without effect,
    because of another security.protocol, are reported by `mm2.config.checks.unused_security`.
    """
    settings = declaration.read(SecurityKeys, properties, problems)
    protocol = SecurityProtocol(settings.security_protocol)
    for name in REFUSED_ALWAYS:
        _refuse_java_class(properties, name, problems)
    return Security(
        protocol=protocol,
        tls=read_tls(properties, settings, problems) if uses_tls(protocol) else TlsSettings(),
        sasl=_read_sasl(properties, settings, problems, credentials) if uses_sasl(protocol) else None,
    )


def uses_tls(protocol: SecurityProtocol) -> bool:
    """Return whether connections are encrypted."""
    return protocol in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)


def uses_sasl(protocol: SecurityProtocol) -> bool:
    """Return whether clients authenticate with SASL."""
    return protocol in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


def _read_sasl(
    properties: Properties, settings: SecurityKeys, problems: ProblemLog, credentials: dict[str, str]
) -> SaslLogin | None:
    mechanism = _mechanism(properties, settings, problems)
    for name, harmless in REFUSED_SASL.items():
        if name != LOGIN_HANDLER.name or mechanism not in (None, SaslMechanism.OAUTHBEARER):
            _refuse_java_class(properties, name, problems, harmless)
    if mechanism is None:
        return None
    if mechanism is SaslMechanism.PLAIN and settings.security_protocol == SecurityProtocol.SASL_PLAINTEXT:
        line = properties["sasl.mechanism"]
        line.warn(
            problems,
            "the password is sent without encryption to every broker",
            f"write {sibling(line, 'sasl.mechanism', 'security.protocol')} = SASL_SSL, or use SCRAM-SHA-512",
        )
    sasl = SaslProperties(properties, settings, mechanism, problems, credentials)
    login = _READERS[mechanism](sasl)
    return sasl.unusable[0] if login is None and sasl.unusable else login


def _mechanism(properties: Properties, settings: SecurityKeys, problems: ProblemLog) -> SaslMechanism | None:
    name = settings.sasl_mechanism
    if name in _READERS:
        return SaslMechanism(name)
    line = properties["sasl.mechanism"]
    if (instead := _UNSUPPORTED.get(name)) is not None:
        line.refuse(problems, f"{name} is not supported", instead.format(level=sibling(line, "sasl.mechanism", "")))
    else:
        meant = get_close_matches(name.upper(), (*_READERS, *_UNSUPPORTED), n=1, cutoff=_CLOSE)
        line.refuse(problems, "unknown SASL mechanism", f"did you mean {meant[0]}?" if meant else f"use {_SUPPORTED}")
    return None


def _refuse_java_class(properties: Properties, name: str, problems: ProblemLog, harmless: Collection[str] = ()) -> None:
    if (value := properties.get(name)) is not None and value.text.strip() not in ("", *harmless):
        value.refuse(problems, "not supported: Java classes cannot be loaded", "remove the line")
