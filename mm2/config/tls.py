"""ssl.* of one Java client to TlsSettings. Stores are PEM and read here: what travels on is contents."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from mm2.config.problems import ProblemLog
from mm2.config.security_keys import LATER, REFUSED_TLS, SecurityKeys
from mm2.config.values import Properties, Value
from mm2.core.cipher_suites import TLS13_SUITES
from mm2.core.client_settings import TlsSettings

_VERSIONS = ("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")
_BLOCK = re.compile(r"-----BEGIN (?P<kind>[A-Z0-9 ]+)-----.*?-----END (?P=kind)-----", re.DOTALL)

_CONVERT = {
    "truststore": "keytool -list -rfc -keystore {} > ca.pem",
    "keystore": (
        "keytool -importkeystore -srckeystore {} -destkeystore key.p12 -deststoretype PKCS12, then openssl pkcs12 -in "
        "key.p12 -out key.pem"
    ),
}
"""How a JKS or PKCS12 store becomes PEM."""


def read_tls(properties: Properties, keys: SecurityKeys, problems: ProblemLog, *, prefix: str = "") -> TlsSettings:
    """What the client's TLS connections use. What cannot be honoured is an error: nothing is weaker than was asked.
    ``prefix`` stands in the file in front of the keys that repairs name."""
    for name, harmless in REFUSED_TLS.items():
        if (value := properties.get(name)) is not None and value.text.strip() not in ("", *harmless):
            value.refuse(
                problems, "cannot be honoured: it belongs to Java's TLS. Remove the line, or run Java's MirrorMaker."
            )
    _check_protocols(properties, keys, problems)
    _check_suites(properties, keys, problems)
    identity = _Store(properties, "keystore", keys.keystore_type, problems, prefix)
    certificate, private_key = _identity(identity, keys)
    return TlsSettings(
        ca_pem=_trusted(_Store(properties, "truststore", keys.truststore_type, problems, prefix), keys),
        certificate_pem=certificate,
        key_pem=private_key,
        key_password=keys.key_password,
        check_hostname=keys.endpoint_identification_algorithm == "https",
        ciphers=keys.cipher_suites,
        protocols=keys.enabled_protocols or TlsSettings().protocols,
    )


@dataclass(frozen=True, slots=True)
class _Store:
    """ssl.keystore.* or ssl.truststore.* of one client, and where to complain."""

    properties: Properties
    word: str
    type: str
    problems: ProblemLog
    prefix: str

    def name(self, word: str) -> str:
        """The whole name of one of the store's properties, as the file must have it."""
        return f"{self.prefix}ssl.{self.word}.{word}"

    def value(self, name: str) -> Value | None:
        return self.properties.get(f"ssl.{self.word}.{name}")

    def refuse(self, name: str, rule: str) -> None:
        value = self.value(name)
        assert value is not None
        value.refuse(self.problems, rule)

    def has(self, name: str) -> bool:
        return self.value(name) is not None

    def is_pem(self, name: str) -> bool:
        """Whether the store that property ``name`` speaks of is PEM; complains when it is not."""
        if self.type == "PEM":
            if self.has("password"):
                self.refuse("password", f"must not be set: a PEM {self.word} has no password. Remove the line.")
            return True
        kind = f"{self.name('type')} = {self.type}"
        if name == "location":
            self.refuse(name, f"cannot be read: {kind} {LATER}. {self._convert()}")
        else:
            self.refuse(name, f"is PEM, but {kind}. Add {self.name('type')} = PEM.")
        return False

    def _convert(self) -> str:
        location = self.properties[f"ssl.{self.word}.location"].text.strip()
        return f"Convert it with {_CONVERT[self.word].format(location)}, and write {self.name('type')} = PEM."

    def read(self) -> str | None:
        """The file at ssl.….location."""
        value = self.value("location")
        assert value is not None
        try:
            return Path(value.text.strip()).read_text("utf-8")
        except OSError as error:
            value.refuse(self.problems, f"cannot be read ({error.strerror}). Name a file that this user may read.")
        except ValueError:  # not UTF-8
            value.refuse(self.problems, f"is no PEM file. {self._convert()}")
        return None

    def expect(self, name: str, content: str, kind: str) -> str | None:
        """``content`` when it holds a PEM block of ``kind``."""
        if any(match["kind"].endswith(kind) for match in _BLOCK.finditer(content)):
            return content
        self.refuse(name, f"holds no -----BEGIN {kind}----- block. Give PEM, with its BEGIN and END lines.")
        return None


def _trusted(store: _Store, keys: SecurityKeys) -> str | None:
    if keys.truststore_certificates is not None:
        if not store.is_pem("certificates"):
            return None
        if store.has("location"):
            store.refuse("location", f"must not be set beside {store.name('certificates')}. Remove one of the two.")
            return None
        return store.expect("certificates", keys.truststore_certificates, "CERTIFICATE")
    if not store.has("location"):
        if store.has("password"):
            store.refuse("password", f"has no {store.name('location')} beside it. Add that, or remove the line.")
        return None
    content = store.read() if store.is_pem("location") else None
    return None if content is None else store.expect("location", content, "CERTIFICATE")


def _identity(store: _Store, keys: SecurityKeys) -> tuple[str | None, str | None]:
    """Certificate chain and private key, both or neither."""
    if keys.keystore_key is not None:
        return _inline_identity(store, keys, keys.keystore_key)
    if keys.keystore_certificate_chain is not None:
        store.refuse("certificate.chain", f"has no {store.name('key')} beside it. Add that, or remove the line.")
        return None, None
    if not store.has("location"):
        if store.has("password"):
            store.refuse("password", f"has no {store.name('location')} beside it. Add that, or remove the line.")
        return None, None
    content = store.read() if store.is_pem("location") else None
    if content is None or not store.expect("location", content, "CERTIFICATE"):
        return None, None
    if not store.expect("location", content, "PRIVATE KEY"):
        return None, None
    _check_password(store, "location", content, keys)
    blocks = list(_BLOCK.finditer(content))
    return (
        "\n".join(match[0] for match in blocks if match["kind"].endswith("CERTIFICATE")),
        "\n".join(match[0] for match in blocks if match["kind"].endswith("PRIVATE KEY")),
    )


def _inline_identity(store: _Store, keys: SecurityKeys, private_key: str) -> tuple[str | None, str | None]:
    if not store.is_pem("key"):
        return None, None
    if keys.keystore_certificate_chain is None:
        store.refuse("key", f"has no {store.name('certificate.chain')} beside it. Add that, or remove the line.")
        return None, None
    if store.has("location"):
        store.refuse("location", f"must not be set beside {store.name('key')}. Remove one of the two.")
        return None, None
    _check_password(store, "key", private_key, keys)
    return (
        store.expect("certificate.chain", keys.keystore_certificate_chain, "CERTIFICATE"),
        store.expect("key", private_key, "PRIVATE KEY"),
    )


def _check_password(store: _Store, name: str, private_key: str, keys: SecurityKeys) -> None:
    if "ENCRYPTED" in private_key and keys.key_password is None:
        store.refuse(name, f"holds an encrypted private key, but there is no {store.prefix}ssl.key.password. Add it.")


def _check_protocols(properties: Properties, keys: SecurityKeys, problems: ProblemLog) -> None:
    unknown = [version for version in keys.enabled_protocols if version not in _VERSIONS]
    if unknown:
        properties["ssl.enabled.protocols"].refuse(
            problems,
            f"must be versions out of {', '.join(_VERSIONS)}. Take out {', '.join(unknown)}.",
        )


def _check_suites(properties: Properties, keys: SecurityKeys, problems: ProblemLog) -> None:
    modern = TLS13_SUITES.intersection(keys.cipher_suites)
    if modern and modern != TLS13_SUITES:
        properties["ssl.cipher.suites"].refuse(
            problems,
            "cannot be honoured: suites of TLS 1.3 are on together or not at all, and "
            f"{', '.join(sorted(TLS13_SUITES - modern))} would be on as well. List all three or none of them.",
        )
