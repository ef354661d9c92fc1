"""The properties of one client with OAUTHBEARER, the options of its login module, and the files that they name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mm2.config.grammar.values import Value
from mm2.config.security.oauth.keys import OAuthKeys
from mm2.config.security.property_names import sibling
from mm2.config.security.sasl_properties import JAAS, SaslProperties
from mm2.core.oauth.tokens import TokenInvalid, read_jwt


@dataclass(frozen=True, slots=True)
class OAuthProperties:
    """``keys`` were read from the properties of ``sasl``; ``options`` are those of the login module."""

    sasl: SaslProperties
    keys: OAuthKeys
    options: Mapping[str, str]

    def value(self, name: str) -> Value | None:
        """Return property ``name`` unless it is missing or blank."""
        value = self.sasl.properties.get(name)
        return value if value is not None and value.text.strip() else None

    def option(self, name: str) -> str | None:
        """Return an option of the login module, trimmed; None if it is missing or blank."""
        return self.options.get(name, "").strip() or None

    def key(self, name: str) -> str:
        """Return property ``name`` as the file must contain it: at the level of sasl.mechanism, unless it is set."""
        value = self.sasl.properties.get(name)
        if value is not None and value.entry is not None:
            return value.entry.key
        return sibling(self.sasl.properties["sasl.mechanism"], "sasl.mechanism", name)

    def refuse(self, name: str, rule: str, fix: str) -> None:
        """Add an error about property ``name``, which is set."""
        self.sasl.properties[name].refuse(self.sasl.problems, rule, fix)

    def refuse_content(self, name: str, rule: str, fix: str) -> None:
        """Add an error about the content of the file that property ``name`` names."""
        self.sasl.refuse_content(name, rule, fix)

    def refuse_mechanism(self, missing: str, fix: str) -> None:
        """Add an error about property ``missing``; ``{key}`` in ``fix`` becomes its key."""
        key = self.key(missing)
        self.refuse("sasl.mechanism", f"requires {key}, which is not set", fix.format(key=key))

    def warn(self, name: str, rule: str, fix: str) -> None:
        """Add a warning about property ``name``, which is set."""
        self.sasl.properties[name].warn(self.sasl.problems, rule, fix)

    def warn_options(self, rule: str, fix: str) -> None:
        """Add a warning about the options of the login module."""
        self.login_line.warn(self.sasl.problems, rule, fix)

    @property
    def login_line(self) -> Value:
        """The line with the login module, or that of the mechanism if the login module is in a JAAS file."""
        properties = self.sasl.properties
        return properties[JAAS] if JAAS in properties else properties["sasl.mechanism"]

    def read_file(self, name: str, path: Path, what: str) -> str | None:
        """Return the content of the file that property ``name`` names; None after an error."""
        try:
            return path.read_text("utf-8")
        except OSError as error:
            rule = f"cannot be read ({error.strerror})"
            self.refuse_content(name, rule, f"give the path of {what} that this user can read")
        except ValueError:  # not UTF-8, or a path with a null character
            self.refuse_content(name, "is not a text file", f"give the path of {what}")
        return None

    def read_jwt_file(self, name: str, path: Path, what: str, *, sub_claim: str) -> str | None:
        """Return the JWT in a file, as `read_file` does; a text that is no JWT is an error too."""
        content = self.read_file(name, path, what)
        if content is None:
            return None
        try:
            return read_jwt(content, sub_claim=sub_claim).value
        except TokenInvalid as error:
            self.refuse_content(name, f"the file contains no token: {error}", f"give the path of {what}")
            return None
