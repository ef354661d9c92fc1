"""krb5.conf of this process, in files that only its user can read.

The C library reads the file that the environment variable KRB5_CONFIG names, so there is one for all logins: that of
the login that was used last. All logins of a node read the same file, so they differ only while a changed krb5.conf is
being applied.
"""

from __future__ import annotations

import os
import tempfile
import threading


class PrivateFile:
    """A file with ``content`` that only this user can read, until `close` or the end of the process.

    On Linux it is anonymous memory with a path in /proc, so that nothing is left on disk after kill -9, either. The
    path is also valid in child processes.
    """

    def __init__(self, content: bytes) -> None:
        self._temporary: str | None = None
        if hasattr(os, "memfd_create"):
            self._descriptor = os.memfd_create("mm2-kerberos", os.MFD_CLOEXEC)
            self.path = f"/proc/{os.getpid()}/fd/{self._descriptor}"
        else:
            self._descriptor, self.path = tempfile.mkstemp(prefix="mm2-kerberos-")
            self._temporary = self.path
        with open(self._descriptor, "wb", closefd=False) as file:
            file.write(content)

    def close(self) -> None:
        """Remove the file."""
        os.close(self._descriptor)
        if self._temporary is not None:
            os.unlink(self._temporary)

    def __enter__(self) -> PrivateFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_FIRST = """\
[libdefaults]
  dns_canonicalize_hostname = false
  rdns = false
"""
"""Settings before those of the user, whom they override: a broker's principal contains its host name as Java
determines it (`mm2.kafka.sasl.kerberos.kerberos_tickets`)."""

_lock = threading.Lock()
_used: dict[str | None, PrivateFile] = {}


def use(krb5_conf: str | None) -> str:
    """Let the C library use this text, and return the path of the file. None: only the library's defaults.

    The variable is not changed in os.environ, from which the configuration is read. Files of earlier texts stay,
    because another thread may be reading them; they are small and few.
    """
    with _lock:
        file = _used.get(krb5_conf)
        if file is None:
            file = _used[krb5_conf] = PrivateFile(f"{_FIRST}{krb5_conf or ''}".encode())
        os.putenv("KRB5_CONFIG", file.path)
        return file.path
