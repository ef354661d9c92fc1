"""Checks of a query by Spark's analyzer and its plan, before any record is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, BinaryType, DataType, NullType, StringType, StructType, TimestampType

from flows.sql.refusal import QueryRefusedError
from flows.sql.row_select import RowSelect, untouched
from mm2.core.settings.relative_times import is_relative_time
from mm2.core.settings.row_query import COLUMNS, TABLE, ResultColumn

_ROW_BY_ROW = ("Project", "Filter", "SubqueryAlias")
"""Nodes of a plan that take each row by itself."""

NOT_DETERMINISTIC = "is not deterministic"
RANDOM_IV = "is not deterministic: aes_encrypt without an IV (mode ECB needs none)"
NOT_OF_THE_RECORD = "depends on when it runs or on the Spark session, such as current_timestamp()"

_FORBIDDEN = {
    "PLAN_EXPRESSION": "has a subquery",
    "PYTHON_UDF": "calls a Python UDF; use Spark's functions",
    "CURRENT_LIKE": NOT_OF_THE_RECORD,
}
"""`org.apache.spark.sql.catalyst.trees.TreePattern` of expressions."""


_MODE, _IV = 2, 4
"""Arguments of aes_encrypt: value, key, mode, padding, IV, AAD."""

_RANDOM_MERGE = "kll_sketch_merge_"


class ExpressionChecks:
    """Checks of expressions by Catalyst's classes in ``jvm``. Each raises QueryRefusedError."""

    def __init__(self, jvm: Any) -> None:
        catalyst = jvm.org.apache.spark.sql.catalyst
        patterns = catalyst.trees.TreePattern
        self._forbidden = [(getattr(patterns, name)(), reason) for name, reason in _FORBIDDEN.items()]
        self._replace_expressions = getattr(getattr(catalyst.optimizer, "ReplaceExpressions$"), "MODULE$")

    def check_marks(self, expressions: Iterable[Any]) -> None:
        """Check what Catalyst itself marks in analyzed expressions."""
        for expression in expressions:
            for pattern, reason in self._forbidden:
                if expression.containsPattern(pattern):
                    _refuse(reason, expression)
            if not expression.deterministic():
                _refuse(NOT_DETERMINISTIC, expression)

    def check_unmarked(self, plan: Any, depth: int) -> None:
        """Check what Catalyst does not mark in the expressions of the first ``depth`` nodes of an analyzed plan.

        Each node has one child.
        """
        node = self._replace_expressions.apply(plan)  # to_date is a Cast, for example
        for _ in range(depth):
            for expression in elements(node.expressions()):
                _check(expression)
            node = node.children().apply(0)


def elements(seq: Any) -> Iterator[Any]:
    """Yield the elements of a Scala Seq."""
    return (seq.apply(index) for index in range(seq.size()))


def _check(expression: Any) -> None:
    children = list(elements(expression.children()))
    name = expression.prettyName()
    if name == "cast" and expression.dataType().typeName() in ("date", "timestamp", "timestamp_ntz"):
        text = _constant(children[0])
        if isinstance(text, str) and is_relative_time(text):
            _refuse("depends on when it runs: a time relative to now", expression)
    elif name == "staticinvoke":
        _check_invoked(expression, children)
    elif name.startswith(_RANDOM_MERGE):
        _refuse(NOT_DETERMINISTIC, expression)
    for child in children:
        _check(child)


def _check_invoked(expression: Any, arguments: Sequence[Any]) -> None:
    method = expression.functionName()
    if method == "aesEncrypt":
        if not _constant(arguments[_IV], default="of each record") and _constant(arguments[_MODE]) != "ECB":
            _refuse(RANDOM_IV, expression)
    elif method == "getSparkVersion":
        _refuse(NOT_OF_THE_RECORD, expression)


def _constant(expression: Any, default: str = "") -> str | bytes:
    """Return a text or bytes that are the same for every record; ``default`` for others."""
    if not expression.foldable():
        return default
    try:
        value = expression.eval(None)
    except Exception:  # noqa: BLE001 py4j raises many kinds; the expression fails for every record
        return default
    if isinstance(value, bytes):
        return value
    return "" if value is None else str(value.toString()) if hasattr(value, "toString") else str(value)


def _refuse(rule: str, expression: Any) -> None:
    raise QueryRefusedError(f"{rule}: {expression.sql()}", rule)


def check_select(select: RowSelect, records: DataFrame) -> frozenset[str]:
    """Check a query over ``records``, the result of `visible`. Return the columns that it reads.

    Raises QueryRefusedError.
    """
    try:
        result = untouched(records, select)
        types = {ResultColumn(field.name): field.dataType for field in result.schema}
    except PySparkException as error:
        raise QueryRefusedError.of_spark(str(error)) from error
    columns_read = _check_plan(result, records)
    for column, found in types.items():
        rule, accepts = _TYPES[column]
        if not accepts(found):
            message = f"{column} has the type {found.simpleString()}; it must be {rule}"
            raise QueryRefusedError(message, f"{column} has the wrong type; it must be {rule}")
    return columns_read


def _check_plan(result: DataFrame, records: DataFrame) -> frozenset[str]:
    """Check that the result is computed from each row by itself, and always the same. Return the columns it is of."""
    references: list[Any] = []
    depth = 0
    node, relation = _analyzed(result), _analyzed(records)
    names = {attribute.exprId().id(): attribute.name() for attribute in elements(relation.output())}
    checks = ExpressionChecks(records.sparkSession._jvm)
    while not node.equals(relation):
        name = node.nodeName()
        if name not in _ROW_BY_ROW:
            rule = "needs more than one record, or returns several"
            raise QueryRefusedError(f"{rule} (Spark plans {name}); only expressions of one record are allowed", rule)
        checks.check_marks(elements(node.expressions()))
        references += elements(node.references().toSeq())
        node = node.children().apply(0)
        depth += 1
    checks.check_unmarked(_analyzed(result), depth)
    return frozenset(_name(attribute, names) for attribute in references)


def _name(attribute: Any, names: Mapping[int, str]) -> str:
    """Return the column, of these by their ids, that an attribute is. Its own name is as the user wrote it: VALUE."""
    name = names.get(attribute.exprId().id())
    if name is None:
        rule = f"reads a column that {TABLE} does not have"
        raise QueryRefusedError(f"{rule}: {attribute.name()}", rule)
    return name


def _analyzed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _is_bytes(found: DataType) -> bool:
    return isinstance(found, BinaryType | StringType | NullType)


def _is_headers(found: DataType) -> bool:
    if isinstance(found, NullType):
        return True
    if not isinstance(found, ArrayType):
        return False
    header = found.elementType
    if isinstance(header, NullType):  # array()
        return True
    if not isinstance(header, StructType) or len(header) != len(_HEADER):
        return False
    name, value = (field.dataType for field in header)
    swapped = [field.name.lower() for field in header] == list(reversed(_HEADER))
    return isinstance(name, StringType) and _is_bytes(value) and not swapped


_HEADER = ("key", "value")
_BYTES: tuple[str, Callable[[DataType], bool]] = ("binary or string", _is_bytes)
_TYPES: dict[ResultColumn, tuple[str, Callable[[DataType], bool]]] = {
    ResultColumn.KEY: _BYTES,
    ResultColumn.VALUE: _BYTES,
    ResultColumn.HEADERS: (COLUMNS["headers"], _is_headers),
    ResultColumn.TIMESTAMP: ("timestamp", lambda found: isinstance(found, TimestampType)),
}
