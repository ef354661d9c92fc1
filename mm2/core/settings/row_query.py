"""The action of an SQL flow on each record: a query, or a function that returns Spark columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

TABLE = "records"
"""The table that a query reads."""

COLUMNS: Mapping[str, str] = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
"""Columns of `TABLE` and their types in Spark SQL: those of Spark's Kafka source, with headers."""


class ResultColumn(StrEnum):
    """A part of a record that a query can set."""

    KEY = "key"
    VALUE = "value"
    HEADERS = "headers"
    TIMESTAMP = "timestamp"


class LetterContent(StrEnum):
    """The values of mm2.sql.NAME.dead.letters."""

    FULL = "full"
    WITHOUT_VALUES = "without-values"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowQuery:
    """``SELECT columns FROM records WHERE condition``, evaluated for one record at a time.

    ``columns`` are the expressions of what is set, as the user wrote them, in Spark SQL without comments; what is
    missing is preserved. ``condition`` is None if no record is dropped; a record is dropped if it is false or NULL.
    Expressions refer to columns by their names, which can be qualified with ``records``.

    ``text`` is the query with single spaces and without comments, and ``sha256`` its digest in hexadecimal. References
    to config providers are not replaced in it, so that it can be stored and shown. With ``has_references``, expressions
    contain values of config providers, and must not be shown.
    """

    columns: Mapping[ResultColumn, str]
    condition: str | None
    text: str
    sha256: str
    has_references: bool = False

    @property
    def may_hide(self) -> bool:
        """Whether the source has contents that the target does not get: records are dropped, or parts of them set."""
        return self.condition is not None or bool(self.columns.keys() - {ResultColumn.TIMESTAMP})

    @property
    def changes_nothing(self) -> bool:
        """Whether records are copied as they are."""
        return not self.columns and self.condition is None

    def __str__(self) -> str:
        """Return what the query does, such as ``sets value, drops records``."""
        does = [*([f"sets {', '.join(self.columns)}"] if self.columns else [])]
        does += ["drops records"] if self.condition is not None else []
        return ", ".join(does) or "changes nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTransform:
    """A Python function that returns Spark columns, and optionally a condition, for the columns of `TABLE`."""

    module: str
    function: str

    @property
    def may_hide(self) -> bool:
        """Whether the source has contents that the target does not get, which is unknown here."""
        return True

    def __str__(self) -> str:
        return f"{self.module}:{self.function}"
