"""ssl.keystore.* and ssl.truststore.* of one Java client: the file of a store, and errors about its properties."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from mm2.config.grammar.problems import ProblemLog, to_copy
from mm2.config.grammar.values import Properties, Value
from mm2.config.security.property_names import sibling
from mm2.config.security.tls.formats import pkcs12
from mm2.config.security.tls.formats.jks import JCEKS_MAGIC, JKS_MAGIC, read_jks
from mm2.config.security.tls.formats.key_store import (
    KeyStore,
    PasswordRequiredError,
    StoreError,
    WrongStorePasswordError,
)
from mm2.config.security.tls.formats.pem import PEM_BLOCK, normalized_pem

REMEMBERED = 64
"""Number of stores and keys whose content is kept: a file has a few, and a node reads it again when it changes."""

PEM, JKS, JCEKS, PKCS12 = "PEM", "JKS", "JCEKS", "PKCS12"
"""Values of ssl.….type, and the formats of files."""

_STARTS = {JKS: JKS_MAGIC, JCEKS: JCEKS_MAGIC, PKCS12: pkcs12.START}

_READ_AS: dict[str, tuple[str, ...]] = {
    PEM: (PEM,),
    JKS: (JKS, PKCS12),
    PKCS12: (PKCS12, JKS),
    JCEKS: (JCEKS, JKS),
}
"""The formats that Java reads for each type: keystore.type.compat is true by default, and a JCEKS store also reads
JKS."""

_READERS: dict[str, Callable[[bytes, str | None], KeyStore]] = {
    JKS: read_jks,
    JCEKS: read_jks,
    PKCS12: pkcs12.read_pkcs12,
}


@dataclass(frozen=True, slots=True)
class Store:
    """The properties of one store, ``kind`` keystore or truststore, and the log for what is wrong with them.

    ``type`` is ssl.….type or its default, as Kafka and Java compare it: in upper case unless it is PEM. ``password`` is
    ssl.….password. ``unusable``: why the store cannot be used before its file is replaced.
    """

    properties: Properties
    kind: str
    type: str
    password: str | None
    problems: ProblemLog
    unusable: list[str] = field(default_factory=list)

    def value(self, name: str) -> Value | None:
        """Return ssl.KIND.``name``."""
        return self.properties.get(f"ssl.{self.kind}.{name}")

    def has(self, name: str) -> bool:
        """Return whether ssl.KIND.``name`` is set."""
        return self.value(name) is not None

    @property
    def path(self) -> Path | None:
        """The file at ssl.KIND.location; None if it is not set."""
        value = self.value("location")
        return None if value is None else Path(value.text.strip())

    def refuse(self, name: str, rule: str, fix: str) -> None:
        """Add an error about ssl.KIND.``name``, which is set."""
        self.set_value(name).refuse(self.problems, rule, fix)

    def refuse_content(self, rule: str, fix: str, name: str = "location") -> None:
        """Add an error about the content of the store. If it is that of a file, a node starts all the same, and its
        clients wait for another file."""
        value = self.set_value(name)
        value.refuse(self.problems, rule, fix, is_temporary=name == "location")
        if name == "location":
            self.unusable.append(value.reason(rule))

    def warn(self, name: str, rule: str, fix: str) -> None:
        """Add a warning about ssl.KIND.``name``, which is set."""
        self.set_value(name).warn(self.problems, rule, fix)

    def set_value(self, name: str) -> Value:
        """Return ssl.KIND.``name``, which is set."""
        value = self.value(name)
        assert value is not None
        return value

    def key(self, other: str, *, beside: str) -> str:
        """Return the key of ssl.KIND.``other`` for the file: its own if it is set, else the one at the level of
        ssl.KIND.``beside``."""
        return self.full_name(f"ssl.{self.kind}.{other}", beside=beside)

    def full_name(self, name: str, *, beside: str) -> str:
        """Return the key of property ``name``, as `key` does."""
        value = self.properties.get(name)
        if value is not None and value.entry is not None:
            return value.entry.key
        return sibling(self.set_value(beside), f"ssl.{self.kind}.{beside}", name)

    def check_inline(self, name: str) -> bool:
        """Return whether the PEM text in ssl.KIND.``name`` is used; add an error if the store's type is not PEM."""
        if self.type == PEM:
            self._check_no_password()
            return True
        self.refuse(name, f"is PEM, but {self._type_in_words(name)}", self._type_line(PEM, name))
        return False

    def read(self) -> str | KeyStore | None:
        """Return the content of the file at ssl.KIND.location: text of a PEM file, or the content of a key store.

        None if no file is set, or if it cannot be read; then an error is added.
        """
        path = self.path
        if path is None:
            self._check_password_alone()
            return None
        if not self._check_type():
            return None
        if self.type == PEM:
            self._check_no_password()
        try:
            content = path.read_bytes()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            self.refuse_content(f"cannot be read ({reason})", "give the path of a file that this user can read")
            return None
        found = self._format(content)
        if found is None:
            return None
        return normalized_pem(content.decode("utf-8", "replace")) if found == PEM else self._open(found, content)

    def expect(self, name: str, content: str, kind: str) -> str | None:
        """Return ``content``, normalized, if it contains a PEM block of ``kind``; else add an error about
        ssl.KIND.``name``."""
        if any(match["kind"].endswith(kind) for match in PEM_BLOCK.finditer(content)):
            return normalized_pem(content)
        self.refuse_content(
            f"contains no -----BEGIN {kind}----- block",
            f"use PEM with a block from -----BEGIN {kind}----- to -----END {kind}-----",
            name,
        )
        return None

    def _open(self, format_of_file: str, content: bytes) -> KeyStore | None:
        try:
            return _read(format_of_file, content, self.password)
        except PasswordRequiredError:
            self._refuse_without_password("is encrypted, so it ")
        except WrongStorePasswordError:
            self.refuse(
                "password",
                f"does not open {self.path}: it is wrong, or the file is damaged",
                "write the password with which the store was created",
            )
        except StoreError as error:
            self.refuse_content(
                f"cannot be read as a {format_of_file} store: {error}",
                "replace the file, or convert it with Java 17 or newer: keytool -importkeystore -srckeystore FILE"
                f" -destkeystore NEW -deststoretype {PKCS12}",
            )
        return None

    def _check_type(self) -> bool:
        if self.type not in _READ_AS:
            self.refuse(
                "type",
                f"must be {PEM}, {JKS}, {JCEKS} or {PKCS12}",
                f"write the type of the store, or convert it with keytool -importkeystore -deststoretype {PKCS12}",
            )
            return False
        if self.kind == "keystore" and self.type != PEM and self.password is None:
            self._refuse_without_password("")  # as in Java, which needs one for key stores
            return False
        return True

    def _format(self, content: bytes) -> str | None:
        """Return the format of a file; None after an error, if Java does not read it as ssl.….type."""
        found = _format_of(content)
        if found is None:
            self.refuse_content(
                f"is not a {self.kind}: neither {PEM} nor {JKS}, {JCEKS} or {PKCS12}",
                "give the path of another file",
            )
        elif found not in _READ_AS[self.type]:
            is_pem = f"is a {found} file" if found == PEM else f"is a {found} store"
            self.refuse("location", f"{is_pem}, but {self._type_in_words('location')}", self._type_line(found))
        return found if found in _READ_AS[self.type] else None

    def _refuse_without_password(self, reason: str) -> None:
        key = self.key("password", beside="location")
        self.refuse(
            "location",
            f"{reason}requires {key}, which is not set",
            f"replace PASSWORD with the password of the store, and add:{to_copy(f'{key} = PASSWORD')}",
        )

    def _check_password_alone(self) -> None:
        if self.has("password"):
            location = self.key("location", beside="password")
            self.refuse(
                "password",
                f"requires {location}, which is not set",
                f"add {location} = the path of the store, or remove the line",
            )

    def _check_no_password(self) -> None:
        if self.has("password"):
            own = f"; the password of the private key is {self.full_name('ssl.key.password', beside='password')}"
            self.refuse(
                "password",
                f"must not be set: a PEM {self.kind} has no password",
                f"remove the line{own if self.kind == 'keystore' else ''}",
            )

    def _type_in_words(self, beside: str) -> str:
        default = "" if self.has("type") else " by default"
        return f"{self.key('type', beside=beside)} is {self.type}{default}"

    def _type_line(self, right: str, beside: str = "location") -> str:
        verb = "write" if self.has("type") else "add"
        password = self.key("password", beside=beside)
        others = ""
        if right == PEM and self.has("password"):
            others = f"\nremove {password}"
        elif right != PEM and not self.has("password"):
            others = f"\nadd {password} = the password of the store"
        return f"{verb} {self.key('type', beside=beside)} = {right}{others}"


@lru_cache(maxsize=REMEMBERED)
def _read(format_of_file: str, content: bytes, password: str | None) -> KeyStore:
    """Read a store once for all clients with it: passwords are meant to be slow to check. Raises StoreError."""
    return _READERS[format_of_file](content, password)


def normalized(store_type: str) -> str:
    """Return ssl.….type in upper case if it is one of Java's types, whose case does not matter."""
    return store_type.upper() if store_type.upper() in _READERS else store_type


def _format_of(content: bytes) -> str | None:
    """Return the format of a file, by its content."""
    if b"-----BEGIN " in content:
        return PEM
    return next((name for name, start in _STARTS.items() if content.startswith(start)), None)
