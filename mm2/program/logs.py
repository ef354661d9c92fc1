"""Logging of a node: one line per record, as text or JSON, without control characters.

Libraries log only warnings and errors, and the same message at most once a minute: a Kafka client reports several times
a second that a broker is down, while the node reports it once with the property to check.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TextIO

from mm2.core.log_records import ATTRIBUTE, OURS, fields_of
from mm2.core.masking import masked
from mm2.core.printable import printable_json, printable_lines
from mm2.core.problems.times_in_words import utc_text_ms

QUIET = ("aiokafka", "asyncio", "httpcore", "httpx", "kazoo", "py4j", "uvicorn")
"""Libraries whose INFO and DEBUG messages do not help operators."""

REPEAT_AFTER_S = 60.0
"""Interval of repeated library messages, the same as a flow's status line: lasting problems remain visible without
hiding other lines."""

REMEMBERED = 1_000
"""Maximum number of different messages remembered for REPEAT_AFTER_S; only messages with numbers reach it."""


KEPT_LINES = 1_000
"""Lines of the log that `last_lines` returns: half an hour of a node without problems, and less than 1 MB."""

_kept: deque[str] = deque(maxlen=KEPT_LINES)


class LogFormat(StrEnum):
    """mm2.log.format."""

    TEXT = "text"
    JSON = "json"


_named: set[str] = set()


def set_up(
    *,
    level: str = "INFO",
    log_format: str = "text",
    levels: Mapping[str, str] | None = None,
    node: str | None = None,
    stream: TextIO | None = None,
) -> None:
    """Log to ``stream`` (default: stderr) from ``level`` (mm2.log.level) on.

    ``levels``: those of single loggers (mm2.log.levels), instead of those of an earlier call. ``node``: the node ID,
    which is part of lines in JSON.

    Secrets that this process knows (`mm2.core.masking`) are masked in all messages, including errors of libraries. This
    is a safeguard: no code of ours logs secrets.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    plain = _JsonLines(node) if LogFormat(log_format) is LogFormat.JSON else _TextLines()
    handler.setFormatter(_Safe(plain))
    handler.addFilter(SeldomRepeated())
    keeper = _Keeper()
    keeper.setFormatter(_Safe(_TextLines()))
    keeper.addFilter(SeldomRepeated())
    logging.basicConfig(handlers=[handler, keeper], level=level.upper(), force=True)
    for name in QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))
    for name in _named.difference(QUIET):
        logging.getLogger(name).setLevel(logging.NOTSET)
    for name, own_level in (levels or {}).items():
        logging.getLogger(name).setLevel(own_level)
    _named.clear()
    _named.update(levels or {})
    logging.captureWarnings(True)


def last_lines() -> list[str]:
    """Return the last lines of this process's log, as text, without secrets."""
    return list(_kept)


class _Keeper(logging.Handler):
    """Keeps the last lines for bug reports."""

    def emit(self, record: logging.LogRecord) -> None:
        _kept.append(self.format(record))


class SeldomRepeated(logging.Filter):
    """Passes the same warning or error of a library once per REPEAT_AFTER_S, and all messages of this program."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._said: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.partition(".")[0] in OURS or record.levelno < logging.WARNING:  # mm2.log.levels names it
            return True
        now, key = self._clock(), (record.name, str(record.msg))
        if now - self._said.get(key, -REPEAT_AFTER_S) < REPEAT_AFTER_S:
            return False
        if len(self._said) >= REMEMBERED:
            self._said = {key: said for key, said in self._said.items() if now - said < REPEAT_AFTER_S}
        if len(self._said) < REMEMBERED:
            self._said[key] = now
        return True


class _TextLines(logging.Formatter):
    """Text lines: ``2026-01-31T12:00:00.123Z INFO    mm2.node: A->B …``. Further lines of a message, and a traceback,
    are indented, so that no text from outside looks like a record."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        return _utc(record)

    @staticmethod
    def printable(text: str) -> str:
        """Return a formatted record without control characters."""
        return printable_lines(text).replace("\n", "\n    ")


class _JsonLines(logging.Formatter):
    """One JSON object per line: time (UTC), level, logger, node and message; flow, topic, partition and lane if it is
    about one; exception if there is one."""

    def __init__(self, node: str | None) -> None:
        super().__init__()
        self._node = {} if node is None else {"node": node}

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        arguments = record.args if isinstance(record.args, tuple) else ()
        fields = fields_of(message, arguments, getattr(record, ATTRIBUTE, {}))
        said: dict[str, str | int] = {
            "time": _utc(record),
            "level": record.levelname,
            "logger": record.name,
            **self._node,
            **{name: masked(value) if isinstance(value, str) else value for name, value in fields.items()},
            "message": masked(message),  # JSON escapes secrets that the message quotes once more
        }
        if record.exc_info:
            said["exception"] = masked(self.formatException(record.exc_info))
        return json.dumps(said, ensure_ascii=False)

    @staticmethod
    def printable(text: str) -> str:
        """Return a formatted record without control characters."""
        return printable_json(text)


def _utc(record: logging.LogRecord) -> str:
    return utc_text_ms(record.created)


class _Safe(logging.Formatter):
    """Wraps a formatter: masks secrets, then escapes control characters."""

    def __init__(self, formatter: _TextLines | _JsonLines) -> None:
        super().__init__()
        self._formatter = formatter

    def format(self, record: logging.LogRecord) -> str:
        return self._formatter.printable(masked(self._formatter.format(record)))
