"""The logger of audit records."""

from __future__ import annotations

import logging

from mm2.core.access.audit import AuditEntry

NAME = "mm2.audit"

log = logging.getLogger(NAME)


def write(entry: AuditEntry) -> None:
    """Log a record as one line of JSON; handlers of the logger write it to mm2.audit.file, too.

    It is passed to the handlers as it is: no level that an operator sets keeps it out.
    """
    level = logging.WARNING if entry.is_alarming else logging.INFO
    log.handle(log.makeRecord(NAME, level, __file__, 0, "%s", (entry.to_json(),), None))
