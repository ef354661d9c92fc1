"""The properties of one client that logs in with SASL, and its login module in sasl.jaas.config."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from mm2.config.grammar.problems import ProblemLog, to_copy
from mm2.config.grammar.values import Properties
from mm2.config.security import jaas
from mm2.config.security.property_names import sibling
from mm2.config.security.security_keys import SecurityKeys
from mm2.core.settings.sasl import SaslMechanism

JAAS = "sasl.jaas.config"


@dataclass(frozen=True, slots=True)
class SaslProperties:
    """``properties`` of one client, of which ``settings`` were read; errors are added to ``problems``."""

    properties: Properties
    settings: SecurityKeys
    mechanism: SaslMechanism
    problems: ProblemLog

    def login_module(self, names: Collection[str], example: str, placeholders: str) -> jaas.LoginModule | None:
        """Return the login module, whose class must be one of ``names``; None after an error.

        ``example``: a login module for the fix. ``placeholders``: what the user has to replace in it ("USER and
        PASSWORD"), or nothing.
        """
        if self.settings.sasl_jaas_config is None:
            protocol = self.properties["security.protocol"]
            key = sibling(protocol, "security.protocol", JAAS)
            protocol.refuse(self.problems, f"requires {key}, which is not set", _fix("add", key, example, placeholders))
            return None
        line = self.properties[JAAS]
        fix = self.fix(example, placeholders)
        try:
            module = jaas.parse(self.settings.sasl_jaas_config)
        except jaas.JaasError as error:
            line.refuse(self.problems, str(error), fix)
            return None
        if module.name not in names:
            line.refuse(
                self.problems,
                f"must have the login module of sasl.mechanism = {self.mechanism}",
                f"correct the mechanism, or {fix}",
            )
            return None
        return module

    def fix(self, example: str, placeholders: str) -> str:
        """Return the fix that writes ``example`` as sasl.jaas.config, which is set."""
        return _fix("write", sibling(self.properties[JAAS], JAAS, JAAS), example, placeholders)


def _fix(verb: str, key: str, example: str, placeholders: str) -> str:
    replace = f"replace {placeholders}, and " if placeholders else ""
    return f"{replace}{verb}:{to_copy(f'{key} = {example}')}"
