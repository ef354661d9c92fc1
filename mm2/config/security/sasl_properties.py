"""The properties of one client that logs in with SASL, and its login module in sasl.jaas.config or in a JAAS file."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

from mm2.config.grammar.problems import ProblemLog, SourceSpan, to_copy
from mm2.config.grammar.values import Properties
from mm2.config.security import jaas
from mm2.config.security.java_options import JAAS_FILE, USER_HOME, file_of, system_properties, user_home
from mm2.config.security.property_names import sibling
from mm2.config.security.security_keys import SecurityKeys
from mm2.core.masking import Renewed, hide
from mm2.core.settings.sasl import SaslMechanism, UnusableLogin

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


JAAS = "sasl.jaas.config"


@dataclass(frozen=True, slots=True)
class SaslProperties:
    """``properties`` of one client, of which ``settings`` were read; errors are added to ``problems``.

    ``credentials``: files that clients read again, with their contents in base64, are added here.
    ``unusable``: the login to use until the content of a file is mended.
    """

    properties: Properties
    settings: SecurityKeys
    mechanism: SaslMechanism
    problems: ProblemLog
    credentials: dict[str, str]
    unusable: list[UnusableLogin] = field(default_factory=list)

    def reread_file(self, path: str | Path, content: bytes) -> str | None:
        """Return the absolute path of a file that clients read again, and remember its ``content``; None for what is
        no regular file: a pipe is read once."""
        if not os.path.isfile(path):
            return None
        hide(content, content.decode("utf-8", "replace").strip(), kind=Renewed.CREDENTIAL_FILE)
        file = os.path.abspath(path)
        self.credentials[file] = b64encode(content).decode()
        return file

    def login_module(self, names: Collection[str], example: str, placeholders: str) -> jaas.LoginModule | None:
        """Return the login module, whose class must be one of ``names``; None after an error.

        ``example``: a login module for the fix. ``placeholders``: what the user has to replace in it ("USER and
        PASSWORD"), or nothing.
        """
        own, file = self.settings.sasl_jaas_config, jaas_file()
        if own is None and file is None:
            protocol = self.properties["security.protocol"]
            key = sibling(protocol, "security.protocol", JAAS)
            rule = f"requires {key}, which is not set{self._by_default('; sasl.mechanism is GSSAPI by default')}"
            protocol.refuse(self.problems, rule, _fix("add", key, example, placeholders))
            return None
        fix = self.fix(example, placeholders)
        try:
            found = read_jaas_file(file) if own is None and file is not None else (jaas.parse(own or ""),)
        except jaas.JaasError as error:
            self.refuse_login(str(error), fix, line=error.line)
            return None
        # As in Java, a section can have modules for several mechanisms.
        module = next((one for one in found if one.name in names), found[0])
        if module.name not in names:
            self.refuse_login(
                f"must have the login module of sasl.mechanism = {self.mechanism}{self._by_default(' (the default)')}",
                f"{self._by_default('add sasl.mechanism', 'correct the mechanism')}, or {fix}",
                line=module.line,
            )
            return None
        return module

    def _by_default(self, words: str, otherwise: str = "") -> str:
        return otherwise if "sasl.mechanism" in self.properties else words

    def refuse_content(self, name: str, rule: str, fix: str) -> None:
        """Add an error about the content of a file that property ``name`` names. A node starts all the same, and its
        clients wait for another file."""
        value = self.properties[name]
        value.refuse(self.problems, rule, fix, is_temporary=True)
        self.unusable.append(UnusableLogin(mechanism=self.mechanism, reason=rule, key=name))

    def refuse_login(self, rule: str, fix: str, *, line: int = 1, is_temporary: bool = False) -> None:
        """Add an error about the login module. ``line``: its place, if it is in the JAAS file. ``is_temporary``: as in
        `refuse_content`, about a file that the login module names."""
        if JAAS in self.properties:
            if is_temporary:
                self.refuse_content(JAAS, rule, fix)
            else:
                self.properties[JAAS].refuse(self.problems, rule, fix)
            return
        entry, file = self.properties["security.protocol"].entry, jaas_file()
        assert entry is not None, "without this line there is no SASL"
        place = SourceSpan(file=str(file), line=line)
        self.problems.within(entry, place, rule, fix, is_warning=False, is_temporary=is_temporary)
        if is_temporary:
            self.unusable.append(UnusableLogin(mechanism=self.mechanism, reason=rule, key="security.protocol"))

    def fix(self, example: str, placeholders: str) -> str:
        """Return the fix that writes ``example`` as the login module, which exists."""
        if JAAS in self.properties:
            return _fix("write", sibling(self.properties[JAAS], JAAS, JAAS), example, placeholders)
        replace = f"replace {placeholders}, and " if placeholders else ""
        return f"{replace}write:{to_copy(f'{SECTION} {{', f'  {example}', '};')}"


def _fix(verb: str, key: str, example: str, placeholders: str) -> str:
    replace = f"replace {placeholders}, and " if placeholders else ""
    return f"{replace}{verb}:{to_copy(f'{key} = {example}')}"
