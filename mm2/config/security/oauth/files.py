"""The files that OAuth properties name, to notice that they change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mm2.config.security import jaas
from mm2.config.security.oauth.assertion import FILE, KEY_FILE, TEMPLATE
from mm2.config.security.oauth.endpoint import URL, token_file
from mm2.config.security.sasl_properties import JAAS

_STORES = ("ssl.truststore.location", "ssl.keystore.location")


def oauth_files(key: str, text: str) -> Iterator[Path]:
    """Return the files that ``key`` of the file names, at any level, such as ``A.sasl.oauthbearer.assertion.file``."""
    if key.endswith((FILE, KEY_FILE, TEMPLATE)) and text.strip():
        yield Path(text.strip())
    elif key.endswith(URL) and (path := token_file(text)) is not None:
        yield path
    elif key.endswith(JAAS):
        yield from _stores(text)


def _stores(text: str) -> Iterator[Path]:
    try:
        options = jaas.parse(text).options
    except jaas.JaasError:  # is reported where the login is read
        return
    yield from (Path(options[name].strip()) for name in _STORES if options.get(name, "").strip())
