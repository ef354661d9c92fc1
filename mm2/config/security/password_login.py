"""Logins with user and password: sasl.mechanism PLAIN and SCRAM."""

from __future__ import annotations

from mm2.config.security.sasl_properties import SaslProperties
from mm2.core.settings.sasl import PasswordLogin, SaslMechanism

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
