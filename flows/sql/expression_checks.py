"""Checks of expressions that Spark takes for deterministic although they are not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from flows.sql.refusal import QueryRefusedError
from mm2.core.settings.relative_times import is_relative_time

_MODE, _IV = 2, 4
"""Arguments of aes_encrypt: value, key, mode, padding, IV, AAD."""

_RANDOM_MERGE = "kll_sketch_merge_"


def check_expressions(result: DataFrame, depth: int) -> None:
    """Check the expressions of the first ``depth`` nodes of a plan, of which each has one child.

    Raises QueryRefusedError.
    """
    jvm = result.sparkSession._jvm
    assert jvm is not None
    rule = getattr(jvm.org.apache.spark.sql.catalyst.optimizer, "ReplaceExpressions$")
    node = getattr(rule, "MODULE$").apply(result._jdf.queryExecution().analyzed())  # to_date is a Cast, for example
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
    elif name == "staticinvoke" and expression.functionName() == "aesEncrypt":
        if not _constant(children[_IV], default="of each record") and _constant(children[_MODE]) != "ECB":
            _refuse("is not deterministic: aes_encrypt without an IV (mode ECB needs none)", expression)
    elif name.startswith(_RANDOM_MERGE):
        _refuse("is not deterministic", expression)
    for child in children:
        _check(child)


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
