"""ssl.keystore.* and ssl.truststore.* of one Java client. Only PEM is supported."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from mm2.config.grammar.problems import ProblemLog, to_copy
from mm2.config.grammar.values import Properties, Value
from mm2.config.security.property_names import sibling
from mm2.config.security.store_conversion import PLACEHOLDER, convert_keystore, convert_truststore

PEM_BLOCK = re.compile(r"-----BEGIN (?P<kind>[A-Z0-9 ]+)-----.*?-----END (?P=kind)-----", re.DOTALL)

_PEM_START = b"-----BEGIN "


@dataclass(frozen=True, slots=True)
class Store:
    """The properties of one store, ``kind`` keystore or truststore, and the log for what is wrong with them.

    ``type`` is ssl.….type or its default.
    """

    properties: Properties
    kind: str
    type: str
    problems: ProblemLog

    def value(self, name: str) -> Value | None:
        """Return ssl.KIND.``name``."""
        return self.properties.get(f"ssl.{self.kind}.{name}")

    def has(self, name: str) -> bool:
        """Return whether ssl.KIND.``name`` is set."""
        return self.value(name) is not None

    def refuse(self, name: str, rule: str, fix: str) -> None:
        """Add an error about ssl.KIND.``name``, which is set."""
        value = self.value(name)
        assert value is not None
        value.refuse(self.problems, rule, fix)

    def key(self, other: str, *, beside: str) -> str:
        """Return the key of ssl.KIND.``other`` for the file: its own if it is set, else the one at the level of
        ssl.KIND.``beside``."""
        return self.full_name(f"ssl.{self.kind}.{other}", beside=beside)

    def full_name(self, name: str, *, beside: str) -> str:
        """Return the key of property ``name``, as `key` does."""
        value = self.properties.get(name)
        if value is not None and value.entry is not None:
            return value.entry.key
        near = self.value(beside)
        assert near is not None
        return sibling(near, f"ssl.{self.kind}.{beside}", name)

    def check_inline(self, name: str) -> bool:
        """Return whether the PEM text in ssl.KIND.``name`` is used; add an error if the store's type is not PEM."""
        if self.type == "PEM":
            self._check_no_password()
            return True
        self.refuse(name, f"is PEM, but {self._type_in_words(name)}", self._type_line(name))
        return False

    def read(self) -> str | None:
        """Return the content of the file at ssl.KIND.location; None if none is set or it cannot be read as PEM."""
        value = self.value("location")
        if value is None:
            if self.has("password"):
                location = self.key("location", beside="password")
                self.refuse(
                    "password",
                    f"requires {location}, which is not set",
                    f"add {location} = the path of the store, or remove the line",
                )
            return None
        if self.type == "PEM":
            self._check_no_password()
        path = Path(value.text.strip())
        try:
            content = path.read_bytes()
        except (OSError, ValueError) as error:
            if self.type == "PEM":
                reason = error.strerror if isinstance(error, OSError) else error
                value.refuse(
                    self.problems, f"cannot be read ({reason})", "give the path of a PEM file that this user can read"
                )
            else:
                self._refuse_type(path, None)
            return None
        return self._as_pem(path, content)

    def _as_pem(self, path: Path, content: bytes) -> str | None:
        if self.type != "PEM":
            self._refuse_type(path, content)
            return None
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            self.refuse("location", "is not a PEM file", self._convert(path, content))
        return None

    def expect(self, name: str, content: str, kind: str) -> str | None:
        """Return ``content`` if it contains a PEM block of ``kind``; else add an error about ssl.KIND.``name``."""
        if any(match["kind"].endswith(kind) for match in PEM_BLOCK.finditer(content)):
            return content
        self.refuse(
            name,
            f"contains no -----BEGIN {kind}----- block",
            f"use PEM with a block from -----BEGIN {kind}----- to -----END {kind}-----",
        )
        return None

    def _check_no_password(self) -> None:
        if self.has("password"):
            own = f"; the password of the private key is {self.full_name('ssl.key.password', beside='password')}"
            self.refuse(
                "password",
                f"must not be set: a PEM {self.kind} has no password",
                f"remove the line{own if self.kind == 'keystore' else ''}",
            )

    def _refuse_type(self, path: Path, content: bytes | None) -> None:
        if content is not None and _PEM_START in content:
            self.refuse(
                "location", f"is a PEM file, but {self._type_in_words('location')}", self._type_line("location")
            )
            return
        default = "" if self.has("type") else f" ({self._type_in_words('location')})"
        self.refuse("location", f"{self.type} stores are not supported{default}", self._convert(path, content))

    def _type_in_words(self, beside: str) -> str:
        default = "" if self.has("type") else " by default"
        return f"{self.key('type', beside=beside)} is {self.type}{default}"

    def _type_line(self, beside: str) -> str:
        verb = "write" if self.has("type") else "add"
        return f"{verb} {self.key('type', beside=beside)} = PEM{self._without_password(beside)}"

    def _without_password(self, beside: str) -> str:
        return f"\nremove {self.key('password', beside=beside)}" if self.has("password") else ""

    def _convert(self, path: Path, content: bytes | None) -> str:
        conversion = convert_truststore(path) if self.kind == "truststore" else convert_keystore(path, content)
        changed = [f"{self.key('location', beside='location')} = {conversion.pem}"]
        added: list[str] = []
        if self.type != "PEM":
            (changed if self.has("type") else added).insert(0, f"{self.key('type', beside='location')} = PEM")
        if conversion.encrypts_key and "ssl.key.password" not in self.properties:
            added.append(f"{self.full_name('ssl.key.password', beside='location')} = {PLACEHOLDER}")
        return (
            f"replace {PLACEHOLDER} with the password of the store, and run:{to_copy(conversion.command)}"
            f"\nchange to:{to_copy(*changed)}"
            + (f"\nadd:{to_copy(*added)}" if added else "")
            + self._without_password("location")
        )
