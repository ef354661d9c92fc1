"""Certificates and private keys of TLS contexts, without files on disk."""

from __future__ import annotations

import contextlib
import os
import ssl
import sys
import tempfile
from collections.abc import Iterator

_DESCRIPTORS = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"


def load_identity(context: ssl.SSLContext, certificate_pem: str, key_pem: str, password: str | None) -> None:
    """Use a certificate chain and its private key in ``context``.

    Python's ssl module reads them from files only. On Linux these are in memory. Elsewhere they have no name, so that
    no other process can open them, and nothing stays if this one is killed now. Raises what
    SSLContext.load_cert_chain raises.
    """
    with _readable(certificate_pem) as certificate, _readable(key_pem) as key:
        # never None: OpenSSL would ask for the password on the terminal
        context.load_cert_chain(certificate, key, password=password or "")


@contextlib.contextmanager
def _readable(text: str) -> Iterator[str]:
    """Yield a path from which ``text`` can be read once."""
    in_memory = hasattr(os, "memfd_create")
    with open(os.memfd_create("mm2-identity"), "w+b") if in_memory else tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)  # where /dev/fd is, it shares the position
        yield f"{_DESCRIPTORS}/{file.fileno()}"
