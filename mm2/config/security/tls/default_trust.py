"""Java's default trust store, for clients without one of their own."""

from __future__ import annotations

import os
import shutil
from functools import lru_cache
from pathlib import Path

from mm2.config.security.java_options import system_properties
from mm2.config.security.tls.certificates import to_pem
from mm2.config.security.tls.formats import pkcs12
from mm2.config.security.tls.formats.jks import JCEKS_MAGIC, JKS_MAGIC, read_jks
from mm2.config.security.tls.formats.key_store import PasswordRequiredError, StoreError, WrongStorePasswordError

_OPTION = "javax.net.ssl.trustStore"

_DIRECTORIES = ("lib/security", "jre/lib/security")  # the latter: a JDK 8
_FILES = ("jssecacerts", "cacerts")  # in the order in which Java looks for them
USUAL_PASSWORD = "changeit"  # noqa: S105 of the store that is delivered with Java


class DefaultTrustError(Exception):
    """The store of -Djavax.net.ssl.trustStore cannot be used. The message is a rule."""


def default_trust(*, usual_password: str = USUAL_PASSWORD) -> str | None:
    """Return the certificates of Java's default trust store in PEM; None: there is no Java here, or it has none.

    It is that of -Djavax.net.ssl.trustStore in KAFKA_OPTS, or else that of the Java of Spark: JAVA_HOME, else ``java``
    on the PATH. The store is read once until it changes. ``usual_password``: of an encrypted store of Java's. Raises
    DefaultTrustError.
    """
    options = system_properties()
    if (named := options.get(_OPTION)) is not None:
        return _named(Path(named), options.get(f"{_OPTION}Password"))
    home = os.environ.get("JAVA_HOME") or _home_of(shutil.which("java"))
    if home is None:
        return None
    for path in (Path(home, directory, name) for name in _FILES for directory in _DIRECTORIES):
        try:
            state = path.stat()
        except OSError:
            continue
        return _read(path, state.st_mtime_ns, state.st_size, usual_password)
    return None


def _named(path: Path, password: str | None) -> str:
    try:
        found = _anchors(path.read_bytes(), password)
    except OSError as error:
        raise DefaultTrustError(f"-D{_OPTION}={path} cannot be read ({error.strerror})") from error
    except PasswordRequiredError as error:
        raise DefaultTrustError(f"-D{_OPTION}={path} requires -D{_OPTION}Password") from error
    except WrongStorePasswordError as error:
        raise DefaultTrustError(f"-D{_OPTION}Password does not open {path}") from error
    except StoreError as error:
        raise DefaultTrustError(f"-D{_OPTION}={path} cannot be read as a key store: {error}") from error
    if not found:
        raise DefaultTrustError(f"-D{_OPTION}={path} contains no trusted certificate")
    return found


@lru_cache(maxsize=2)
def _anchors(content: bytes, password: str | None) -> str:
    read = read_jks if content.startswith((JKS_MAGIC, JCEKS_MAGIC)) else pkcs12.read_pkcs12
    return to_pem(read(content, password).anchors)


def _home_of(java: str | None) -> Path | None:
    return None if java is None else Path(java).resolve().parents[1]


@lru_cache(maxsize=2)
def _read(path: Path, changed_ns: int, size: int, usual_password: str) -> str | None:
    """``changed_ns`` and ``size`` are those of the file, for the cache."""
    del changed_ns, size
    try:
        content = path.read_bytes()
        if content.startswith(JKS_MAGIC):
            return to_pem(read_jks(content, None).anchors) or None
        try:
            store = pkcs12.read_pkcs12(content, None)
        except PasswordRequiredError:
            store = pkcs12.read_pkcs12(content, usual_password)
        return to_pem(store.anchors) or None
    except (OSError, StoreError):
        return None
