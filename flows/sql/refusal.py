"""Errors of queries that Spark rejects."""

from __future__ import annotations

import re

from mm2.core.lanes.lease import LaneQuery
from mm2.core.settings.row_query import RowQuery, RowTransform

LONGEST = 500
"""Characters of a message that is shown in a status."""

_AFTER = ("==", "'", "+-", "\tat ", "JVM stacktrace")
"""Begins of lines that follow the first paragraph: the part of the query, its plan, a stack trace."""

_CLASS = re.compile(r"\s*(\[[A-Z0-9_.]+\])")
_NOT_SHOWN = "the rest is not shown, because the query contains values of config providers"
_VALUES_NOT_SHOWN = "the rest, which can quote the record, is shown with mm2.sql.{}.dead.letters = full"


class QueryRefusedError(Exception):
    """The query cannot run, however often it is started.

    ``without_query`` is the message without any part of the query; None: only that there is an error.
    """

    def __init__(self, message: str, without_query: str | None = None) -> None:
        super().__init__(message)
        self.without_query = without_query or "error"

    @classmethod
    def of_spark(cls, text: str) -> QueryRefusedError:
        """Return the error for a message of Spark."""
        return cls(spark_message(text), error_class(text))

    def shown_for(self, action: RowQuery | RowTransform) -> str:
        """Return the message, safe to show."""
        return f"{self.without_query} ({_NOT_SHOWN})" if is_hidden(action) else str(self)

    def shown_for_record(self, query: LaneQuery) -> str:
        """Return the message about a record, safe to show."""
        if query.hides_values and not is_hidden(query.action):
            return f"{self.without_query} ({_VALUES_NOT_SHOWN.format(query.name)})"
        return self.shown_for(query.action)


def is_hidden(action: RowQuery | RowTransform) -> bool:
    """Return whether expressions of a query must not be shown: Spark's messages quote them."""
    return isinstance(action, RowQuery) and action.has_references


def error_class(text: str) -> str | None:
    """Return the class of an error of Spark, such as ``[CAST_INVALID_INPUT]``; None if it has none."""
    found = _CLASS.match(text)
    return None if found is None else found[1]


def spark_message(text: str) -> str:
    """Return the first paragraph of an error of Spark, such as ``[CAST_INVALID_INPUT] The value 'x' …``, in one line.

    The plan, the part of the query and the stack trace that can follow are left out.
    """
    lines: list[str] = []
    for line in text.strip().splitlines():
        if not line.strip() or (lines and line.startswith(_AFTER)):
            break
        lines.append(line.strip())
    message = " ".join(lines).rstrip(";") or "unknown error"
    return message if len(message) <= LONGEST else message[: LONGEST - 1] + "…"
