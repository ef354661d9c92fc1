"""Files with credentials that change while clients use them: keytabs, ticket caches, tokens and assertions.

A process on the node's machine reads the files. A lane on another machine has their contents from its node, which sends
them again after each change.
"""

from __future__ import annotations

import os
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path

_delivered: dict[str, bytes] = {}


def deliver(contents: Mapping[str, str]) -> None:
    """Use these contents, in base64, instead of the files; contents of earlier calls no longer count."""
    decoded = {file: b64decode(content) for file, content in contents.items()}
    _delivered.clear()
    _delivered.update(decoded)


def is_delivered(file: str) -> bool:
    """Return whether the file is on another machine."""
    return file in _delivered


def state(file: str) -> object:
    """Return something that differs after the content of ``file`` was replaced."""
    if (content := _delivered.get(file)) is not None:
        return content
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def read(file: str) -> bytes:
    """Return the content of ``file`` as it is now. Raises OSError."""
    content = _delivered.get(file)
    return Path(file).read_bytes() if content is None else content
