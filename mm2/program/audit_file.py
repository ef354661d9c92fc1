"""mm2.audit.file: the audit records of this node, one JSON object a line, appended to a file of mode 600.

The file is opened again after it was renamed or removed, so that logrotate needs neither copytruncate nor a signal. A
file that cannot be written never keeps a command from being executed: that is an error in the log, and in the status.
"""

from __future__ import annotations

import logging
import os
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler
from pathlib import Path

from mm2.core.masking import masked
from mm2.node.common.audit_log import NAME

log = logging.getLogger("mm2.node")

_MODE = 0o600


class AuditFile(WatchedFileHandler):
    """A handler of the logger ``mm2.audit``. ``error``: why the last record was not written; None: it was."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, encoding="utf-8", delay=True)
        self.error: str | None = None
        self.setFormatter(_Masked())

    def open(self) -> None:
        """Start to write the records of this process, and find out whether that is possible."""
        try:
            self.stream = self._open()
            self._statstream()
        except OSError as error:
            self._failed(error)
        logging.getLogger(NAME).addHandler(self)

    def close(self) -> None:
        """Write no more records."""
        logging.getLogger(NAME).removeHandler(self)
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; it is on the way to the disk when this returns."""
        try:
            self.reopenIfNeeded()
            if self.stream is None:
                self.stream = self._open()
                self._statstream()
            self.stream.write(f"{self.format(record)}\n")
            self.stream.flush()
        except OSError as error:
            self._failed(error)
        else:
            self.error = None

    def _open(self) -> TextIOWrapper:
        closed = os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _MODE)
        return os.fdopen(closed, "a", encoding="utf-8")

    def _failed(self, error: OSError) -> None:
        text = f"mm2.audit.file: cannot write {self.baseFilename}: {error.strerror or error}"
        if text != self.error:
            log.error("%s; audit records are in this log only", text)
        self.error = text


class _Masked(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return masked(record.getMessage())
