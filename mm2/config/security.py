"""security.protocol, ssl.* and sasl.* of one Java client to what our clients understand (mm2-compat §1.2)."""

from __future__ import annotations

from dataclasses import dataclass

from mm2.config import jaas, keys
from mm2.config.problems import ProblemLog
from mm2.config.security_keys import LATER, REFUSED_ALWAYS, REFUSED_SASL, SecurityKeys
from mm2.config.tls import read_tls
from mm2.config.values import Properties
from mm2.core.client_settings import SaslMechanism, SaslSettings, SecurityProtocol, TlsSettings

_MODULES = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": (SaslMechanism.PLAIN,),
    "org.apache.kafka.common.security.scram.ScramLoginModule": (
        SaslMechanism.SCRAM_SHA_256,
        SaslMechanism.SCRAM_SHA_512,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """How one client connects."""

    protocol: SecurityProtocol
    tls: TlsSettings
    sasl: SaslSettings | None


def read_security(properties: Properties, problems: ProblemLog) -> Security:
    """What ``properties`` ask for. What cannot be honoured is an error; nothing is weaker than was asked."""
    settings = keys.read(SecurityKeys, properties, problems)
    protocol = SecurityProtocol(settings.security_protocol)
    for name in REFUSED_ALWAYS:
        _refuse_java_class(properties, name, problems)
    uses_tls = protocol in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)
    uses_sasl = protocol in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)
    if not uses_sasl and (unused := properties.get("sasl.jaas.config")) is not None and unused.entry is not None:
        problems.warning(f"has no effect: security.protocol is {protocol}, which does not log in.", at=unused.entry)
    return Security(
        protocol=protocol,
        tls=read_tls(properties, settings, problems) if uses_tls else TlsSettings(),
        sasl=_read_sasl(properties, settings, problems) if uses_sasl else None,
    )


def _read_sasl(properties: Properties, settings: SecurityKeys, problems: ProblemLog) -> SaslSettings | None:
    for name in REFUSED_SASL:
        _refuse_java_class(properties, name, problems)
    mechanism = _mechanism(properties, settings, problems)
    if mechanism is None:
        return None
    if settings.sasl_jaas_config is None:
        properties["security.protocol"].refuse(
            problems, "logs in, but there is no sasl.jaas.config to log in with. Add it beside this line."
        )
        return None
    return _credentials(properties, settings.sasl_jaas_config, mechanism, problems)


def _mechanism(properties: Properties, settings: SecurityKeys, problems: ProblemLog) -> SaslMechanism | None:
    spoken = ", ".join(SaslMechanism)
    try:
        return SaslMechanism(settings.sasl_mechanism)
    except ValueError:
        if "sasl.mechanism" in properties:
            properties["sasl.mechanism"].refuse(
                problems, f"cannot be honoured: {settings.sasl_mechanism} {LATER}. Use one of {spoken} until then."
            )
        else:
            properties["security.protocol"].refuse(
                problems,
                f"logs in by GSSAPI where there is no sasl.mechanism, which {LATER}. Add sasl.mechanism: {spoken}.",
            )
    return None


def _credentials(
    properties: Properties, text: str, mechanism: SaslMechanism, problems: ProblemLog
) -> SaslSettings | None:
    line = properties["sasl.jaas.config"]
    try:
        module = jaas.parse(text)
    except jaas.JaasError as error:
        line.refuse(problems, f'{error}. Write: LOGINMODULE required username="…" password="…";')
        return None
    expected = next(name for name, mechanisms in _MODULES.items() if mechanism in mechanisms)
    if module.name != expected:
        line.refuse(problems, f"must name the login module {expected} for sasl.mechanism {mechanism}.")
        return None
    if module.options.get("tokenauth", "").lower() == "true":
        line.refuse(problems, f"cannot be honoured: tokenauth, a delegation token, {LATER}. Use a user's password.")
        return None
    missing = [name for name in ("username", "password") if name not in module.options]
    if missing:
        line.refuse(problems, f"has no {' and no '.join(missing)}. Add it to the options of the login module.")
        return None
    return SaslSettings(mechanism=mechanism, username=module.options["username"], password=module.options["password"])


def _refuse_java_class(properties: Properties, name: str, problems: ProblemLog) -> None:
    if (value := properties.get(name)) is not None and value.text.strip():
        value.refuse(
            problems, "cannot be honoured: it names a Java class. Such classes come with a later release, if at all."
        )
