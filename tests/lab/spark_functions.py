"""Writes mm2/config/sql/spark_functions.py, the list of Spark's functions by kind, after a change of Spark's version.

``make spark-functions`` runs it. The kind of a function is what Catalyst and flows/sql/select_checks.py say about calls
of it, so `mm2 check` rejects what the engine rejects. A new function that is deterministic deserves a look: can its
value depend on anything but its arguments? Then it needs a rule in flows/sql/select_checks.py.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from flows.sql import select_checks
from flows.sql.refusal import QueryRefusedError
from mm2.config.sql import query_functions
from mm2.config.sql.query_functions import KINDS, FunctionKind
from tests.lab.spark_sql import sql_session

FILE = Path(query_functions.__file__).with_name("spark_functions.py")
COMMAND = "make spark-functions"

MOST_ARGUMENTS = 7
"""Of functions with a fixed number of them: make_timestamp."""

_SUPERTYPES = {
    "Generator": FunctionKind.GENERATOR,
    "WindowFunction": FunctionKind.WINDOW,
    "aggregate.AggregateFunction": FunctionKind.AGGREGATE,  # after windows: rank is both
}
_CLASSES = {
    "CallMethodViaReflection": FunctionKind.REFLECTION,
    "Grouping": FunctionKind.AGGREGATE,
    "GroupingID": FunctionKind.AGGREGATE,
    "InputFileBlockLength": FunctionKind.FILE,
    "InputFileBlockStart": FunctionKind.FILE,
    "InputFileName": FunctionKind.FILE,
    "SessionWindow": FunctionKind.WINDOW,
    "TimeWindow": FunctionKind.WINDOW,
    "TryReflect": FunctionKind.REFLECTION,
    "WindowTime": FunctionKind.WINDOW,
}
"""Without a supertype that says so, or nondeterministic for a reason that a message can give."""

_REFUSALS = {
    select_checks.NOT_DETERMINISTIC: FunctionKind.NONDETERMINISTIC,
    select_checks.RANDOM_IV: FunctionKind.RANDOM_IV,
}

_PACKAGE = "org.apache.spark.sql.catalyst.expressions."
_IDENTIFIER = re.compile("[a-z_][a-z0-9_]*")
"""Other functions are operators."""

_SPARK_ERRORS = (Py4JJavaError, PySparkException)


def functions(session: SparkSession) -> dict[str, FunctionKind]:
    """Return the kinds of the functions of Spark, as `query_functions.KINDS` has them."""
    assert session._jvm is not None
    return dict(sorted(_Registries(session._jvm).kinds()))


def module(version: str, kinds: Mapping[str, FunctionKind]) -> str:
    """Return the text of `FILE`, for a version of Spark."""
    parts = [
        f'"""Functions of Spark {version} by kind (`query_functions.FunctionKind`). Written by `{COMMAND}`."""\n\n'
        "from __future__ import annotations\n\nfrom collections.abc import Mapping\n\n"
        "FUNCTIONS: Mapping[str, str] = {\n"
    ]
    for kind in FunctionKind:
        names = " ".join(name for name, found in kinds.items() if found is kind)
        lines = textwrap.fill(names, 120, initial_indent=" " * 8, subsequent_indent=" " * 8)
        parts.append(f'    "{kind}": """\n{lines}\n    """,\n')
    return "".join([*parts, "}\n"])


def changes(kinds: Mapping[str, FunctionKind]) -> list[str]:
    """Return how ``kinds`` differ from the list that is stored, one line for each function."""
    found = {name: (str(KINDS.get(name, "unknown")), str(kinds.get(name, "unknown"))) for name in {**KINDS, **kinds}}
    return [f"{name}: {before} -> {now}" for name, (before, now) in sorted(found.items()) if before != now]


class _Registries:
    """Spark's registries of functions. Classes and packages are below org.apache.spark.sql.catalyst."""

    def __init__(self, jvm: Any) -> None:
        self._java_list, self._class_named = jvm.java.util.ArrayList, jvm.java.lang.Class.forName
        self._converters = _object(jvm.scala.jdk, "CollectionConverters")
        catalyst = jvm.org.apache.spark.sql.catalyst
        self._name = catalyst.FunctionIdentifier
        self._array = catalyst.expressions.CreateArray
        self._analysis = catalyst.analysis
        self._relation = catalyst.plans.logical.OneRowRelation()
        self._filter = catalyst.plans.logical.Filter
        self._checks = select_checks.ExpressionChecks(jvm)
        self._current_like = catalyst.trees.TreePattern.CURRENT_LIKE()
        self._supertypes = [(self._class_named(_PACKAGE + name), kind) for name, kind in _SUPERTYPES.items()]
        literal = _object(catalyst.expressions, "Literal")
        counts = range(MOST_ARGUMENTS + 1)
        self._arguments = [
            [jvm.scala.util.Success(self._seq([literal.apply(value)] * count)) for count in counts]
            for value in (1, "1 day")  # for example the precision of current_time, and the duration of window
        ]

    def kinds(self) -> Iterator[tuple[str, FunctionKind]]:
        """Yield functions with their kinds. One that takes several numbers of arguments can have several."""
        builtin = self._analysis.FunctionRegistry.builtin()
        internal = _object(self._analysis, "FunctionRegistry").internal()
        scalar = _names(builtin)
        for name in _names(self._analysis.TableFunctionRegistry.builtin()) - scalar:
            yield name, FunctionKind.GENERATOR
        for name in scalar:
            yield from self._kinds_of(name, builtin)
        for name in _names(internal) - scalar:  # SQL does not find them, so only errors can say more about them
            for found, kind in self._kinds_of(name, internal):
                if kind is not FunctionKind.DETERMINISTIC:
                    yield found, kind

    def _kinds_of(self, name: str, registry: Any) -> Iterator[tuple[str, FunctionKind]]:
        calls = self._calls(registry.lookupFunctionBuilder(self._name(name)).get())
        if not calls:  # from_json and others take certain constants only
            info = registry.lookupFunction(self._name(name)).get()
            yield name, self._kind_of_class(info.getClassName()) or FunctionKind.DETERMINISTIC
            return
        kinds = self._kinds_of_calls(calls)
        if len(set(kinds.values())) == 1:
            yield name, kinds.popitem()[1]
        elif FunctionKind.RANDOM_IV in kinds.values():
            yield name, FunctionKind.RANDOM_IV
        else:
            yield name, FunctionKind.DETERMINISTIC
            for count, kind in kinds.items():
                if kind is not FunctionKind.DETERMINISTIC:
                    yield f"{name}/{count}", kind

    def _calls(self, builder: Any) -> dict[int, Any]:
        """Return an expression for each number of arguments that a function takes; {} if it takes none of ours.

        Success.map keeps the exceptions of others in the JVM.
        """
        for arguments in self._arguments:
            calls: dict[int, Any] = {}
            for count, given in enumerate(arguments):
                call = given.map(builder)
                if call.isSuccess():
                    calls[count] = call.get()
                elif calls:
                    break
            if calls:
                return calls
        return {}

    def _kinds_of_calls(self, calls: Mapping[int, Any]) -> dict[int, FunctionKind]:
        kind = self._kind_of_class(next(iter(calls.values())).getClass().getName())
        if kind is not None:
            return dict.fromkeys(calls, kind)
        try:
            if self._refusal(self._array(self._seq(calls.values()), False)) is None:
                return dict.fromkeys(calls, FunctionKind.DETERMINISTIC)
        except _SPARK_ERRORS:
            pass  # one of the calls is the reason
        return {count: self._kind(call) for count, call in calls.items()}

    def _kind_of_class(self, name: str) -> FunctionKind | None:
        """Return the kind that the class of an expression tells; None if it tells nothing."""
        if name.removeprefix(_PACKAGE) in _CLASSES:
            return _CLASSES[name.removeprefix(_PACKAGE)]
        try:
            found = self._class_named(name)
        except Py4JJavaError:  # ExpressionInfo has other names for nested classes
            return None
        return next((kind for supertype, kind in self._supertypes if supertype.isAssignableFrom(found)), None)

    def _kind(self, call: Any) -> FunctionKind:
        try:
            refusal = self._refusal(call)
        except _SPARK_ERRORS:  # xpath and others cannot be replaced without an XML text; Catalyst's marks are checked
            refusal = None
        if refusal is None:
            return FunctionKind.DETERMINISTIC
        if refusal != select_checks.NOT_OF_THE_RECORD:
            return _REFUSALS[refusal]
        return FunctionKind.SESSION if self._reason(call).dataType().typeName() == "string" else FunctionKind.CLOCK

    def _refusal(self, expression: Any) -> str | None:
        """Return why the engine rejects an expression; None if it accepts it. Raises errors of Spark."""
        try:
            self._checks.check_marks([expression])
            self._checks.check_unmarked(self._filter(expression, self._relation), 1)
        except QueryRefusedError as error:
            return error.without_query
        return None

    def _reason(self, call: Any) -> Any:
        """Return the innermost expression that depends on time or session, such as the default of an argument."""
        children = select_checks.elements(call.children())
        inside = next((one for one in children if one.containsPattern(self._current_like)), None)
        return call if inside is None else self._reason(inside)

    def _seq(self, items: Iterable[Any]) -> Any:
        found = self._java_list()
        for item in items:
            found.add(item)
        return self._converters.ListHasAsScala(found).asScala().toSeq()


def _object(package: Any, name: str) -> Any:
    """Return an object of Scala."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def _names(registry: Any) -> set[str]:
    names = (name.rpartition(".")[2] for name in registry.listFunction().mkString("\n").split("\n"))
    return {name for name in names if _IDENTIFIER.fullmatch(name)}


def main() -> None:
    """Write the list, and print what has changed."""
    with sql_session() as session:
        kinds = functions(session)
        FILE.write_text(module(session.version, kinds), "utf-8")
    print(*changes(kinds), f"{FILE.name}: {len(kinds)} functions", sep="\n")


if __name__ == "__main__":
    main()
