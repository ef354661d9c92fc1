"""Commands that convert a JKS or PKCS12 store to PEM, for the fix of a problem.

They write to files that do not exist yet, so that following the advice cannot overwrite a file of the user.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

PLACEHOLDER = "PASSWORD"
"""Placeholder for the store's password, which no message may contain."""

_PKCS12_START = b"\x30"  # a DER sequence; JKS and JCEKS have magic numbers of their own


@dataclass(frozen=True, slots=True)
class Conversion:
    """A shell ``command`` and the PEM file that it writes. ``encrypts_key``: the file's private key then has the
    store's password."""

    command: str
    pem: Path
    encrypts_key: bool


def convert_truststore(store: Path) -> Conversion:
    """Return the conversion of a trust store: its certificates."""
    pem = _unused(store, "-ca.pem")
    command = f"keytool -list -rfc -keystore {_quoted(store)} -storepass {PLACEHOLDER} > {_quoted(pem)}"
    return Conversion(command, pem, encrypts_key=False)


def convert_keystore(store: Path, content: bytes | None) -> Conversion:
    """Return the conversion of a key store: private key and certificate chain. ``content`` is None if unknown."""
    pem = _unused(store, "-identity.pem")
    if content is not None and content.startswith(_PKCS12_START):
        return Conversion(_to_pem(store, pem), pem, encrypts_key=True)
    pkcs12 = _unused(store, "-identity.p12")
    to_pkcs12 = (
        f"keytool -importkeystore -srckeystore {_quoted(store)} -srcstorepass {PLACEHOLDER} "
        f"-destkeystore {_quoted(pkcs12)} -deststoretype PKCS12 -deststorepass {PLACEHOLDER}"
    )
    return Conversion(f"{to_pkcs12} && {_to_pem(pkcs12, pem)}", pem, encrypts_key=True)


def _to_pem(pkcs12: Path, pem: Path) -> str:
    source, destination = f"-in {_quoted(pkcs12)}", f"-out {_quoted(pem)}"
    return f"openssl pkcs12 {source} -passin pass:{PLACEHOLDER} {destination} -passout pass:{PLACEHOLDER}"


def _unused(store: Path, ending: str) -> Path:
    """Return a path next to ``store`` at which there is no file."""
    path, number = store.with_name(store.stem + ending), 1
    while os.path.lexists(path):
        number += 1
        path = store.with_name(f"{store.stem}-{number}{ending}")
    return path


def _quoted(path: Path) -> str:
    return quote(str(path))
