"""Java's default trust store, for clients without one of their own."""

from __future__ import annotations

import os
import shutil
from functools import lru_cache
from pathlib import Path

from mm2.config.security.certificates import to_pem
from mm2.config.security.formats import pkcs12
from mm2.config.security.formats.jks import JKS_MAGIC, read_jks
from mm2.config.security.formats.key_store import PasswordRequiredError, StoreError

_DIRECTORIES = ("lib/security", "jre/lib/security")  # the latter: a JDK 8
_FILES = ("jssecacerts", "cacerts")  # in the order in which Java looks for them
_PASSWORD = "changeit"  # noqa: S105 of the store that is delivered with Java


def default_trust() -> str | None:
    """Return the certificates of Java's default trust store in PEM; None: there is no Java here, or it has none.

    Java is that of Spark: JAVA_HOME, else ``java`` on the PATH. The store is read once until it changes.
    """
    home = os.environ.get("JAVA_HOME") or _home_of(shutil.which("java"))
    if home is None:
        return None
    for path in (Path(home, directory, name) for name in _FILES for directory in _DIRECTORIES):
        try:
            state = path.stat()
        except OSError:
            continue
        return _read(path, state.st_mtime_ns, state.st_size)
    return None


def _home_of(java: str | None) -> Path | None:
    return None if java is None else Path(java).resolve().parents[1]


@lru_cache(maxsize=2)
def _read(path: Path, changed_ns: int, size: int) -> str | None:
    """``changed_ns`` and ``size`` are those of the file, for the cache."""
    del changed_ns, size
    try:
        content = path.read_bytes()
        if content.startswith(JKS_MAGIC):
            return to_pem(read_jks(content, None).anchors) or None
        try:
            store = pkcs12.read_pkcs12(content, None)
        except PasswordRequiredError:
            store = pkcs12.read_pkcs12(content, _PASSWORD)
        return to_pem(store.anchors) or None
    except (OSError, StoreError):
        return None
