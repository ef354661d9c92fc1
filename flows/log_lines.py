"""The log of an engine and of a lane: lines on stderr, which the node reads and logs with its own.

On a Spark cluster the lines of lanes are in the stderr of their executors.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping

from mm2.core.log_records import ATTRIBUTE, OURS, RelayedLine, fields_of
from mm2.core.masking import masked


class RelayedLines(logging.Formatter):
    """Formats records as `RelayedLine`, without the secrets of this process: a lane has tokens of its own, which the
    node does not know."""

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        arguments = record.args if isinstance(record.args, tuple) else ()
        fields = fields_of(message, arguments, getattr(record, ATTRIBUTE, {}))
        record.message = message
        line = str(RelayedLine(level=record.levelname, logger=record.name, message=message, fields=fields))
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return masked(line)


def set_up() -> None:
    """Write this process's log to stderr: libraries from WARNING on, our own lines from INFO on.

    Spark reuses processes, so this can be called more than once.
    """
    root = logging.getLogger()
    if not any(isinstance(handler.formatter, RelayedLines) for handler in root.handlers):
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(RelayedLines())
        root.addHandler(handler)
    for name in OURS:
        logging.getLogger(name).setLevel(logging.INFO)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # a lost JVM is logged once, by us


_named: set[str] = set()


def set_levels(levels: Mapping[str, str]) -> None:
    """Log from these levels on, by logger, instead of those that were set before."""
    for name in _named - levels.keys():
        logging.getLogger(name).setLevel(logging.INFO if name in OURS else logging.NOTSET)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    _named.clear()
    _named.update(levels)
