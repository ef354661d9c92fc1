"""The path of the Unix socket between the two Python workers of a SQL lane."""

from __future__ import annotations

import hashlib
import os
import tempfile

LONGEST_PATH = 107
"""Bytes of `sockaddr_un.sun_path` without its final zero byte."""

_SHORT = "/tmp"  # noqa: S108 the names in it cannot be guessed


def socket_path(token: str, attempt: int) -> str:
    """Return the path for one attempt of a Spark task, by `TaskContext.taskAttemptId`.

    It is in the temporary directory of the executor, or in /tmp if its path would be too long for a socket. The name is
    derived from the ``token`` of the job, so that no other user of the machine can know it before it exists.
    """
    name = f"mm2-{hashlib.sha256(f'{attempt} {token}'.encode()).hexdigest()[:16]}.sock"
    path = os.path.join(tempfile.gettempdir(), name)
    return path if len(os.fsencode(path)) <= LONGEST_PATH else f"{_SHORT}/{name}"
