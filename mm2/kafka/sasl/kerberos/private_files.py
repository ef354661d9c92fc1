"""Files that exist in memory only: for libraries that read secrets from nothing but files."""

from __future__ import annotations

import os
import tempfile


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
