"""The JAAS file of the process, which clients without sasl.jaas.config use (Kafka's JaasContext)."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from mm2.config.security import jaas
from mm2.config.security.java_options import JAAS_FILE, USER_HOME, file_of, system_properties, user_home

SECTION = "KafkaClient"

_PROPERTY = re.compile(r"\$\{([^}]*)\}")


def jaas_file() -> Path | None:
    """Return the file that -Djava.security.auth.login.config in KAFKA_OPTS names; None: there is none."""
    return file_of(JAAS_FILE)


def read_jaas_file(path: Path) -> tuple[jaas.LoginModule, ...]:
    """Return the login modules of section KafkaClient; ``${user.home}`` and other system properties in their options
    are replaced (PropertyExpander). Raises JaasError."""
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise jaas.JaasError(f"cannot be read ({reason})") from error
    return tuple(_expanded(module) for module in jaas.parse_section(text, SECTION))


def _expanded(module: jaas.LoginModule) -> jaas.LoginModule:
    known = {**system_properties(), "/": "/"}

    def value_of(match: re.Match[str]) -> str:
        value = user_home() if match[1] == USER_HOME else known.get(match[1])
        if value is None:
            raise jaas.JaasError(f"uses the system property {match[1]}, which KAFKA_OPTS does not set", module.line)
        return value

    return replace(module, options={name: _PROPERTY.sub(value_of, text) for name, text in module.options.items()})
