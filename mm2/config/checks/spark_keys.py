"""Check of the names and values of ``spark.*``: misspelt ones, and those with which no lane can start."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache

from mm2.config.grammar.problems import ProblemLog
from mm2.config.grammar.values import Properties
from mm2.config.keys.class_loading import load
from mm2.config.settings import FlowSettings
from mm2.core.settings.spark_master import SparkMaster

_PREFIX = "spark."
_SQL = "spark.sql."
ANSI = "spark.sql.ansi.enabled"

_ALIKE = 0.85
"""Names of Spark are long and similar, and plugins have names of their own."""

_OPEN = re.compile(
    r"spark\.(?:executorEnv|hadoop|hive|ssl|metrics\.conf|port|rpc\.io|network\.crypto\.config|sql\.catalog"
    r"|io\.encryption\.commons\.config|plugins\.internal\.conf"
    r"|(?:driver|executor|task|worker|shuffle\.push)\.resource|resources?"
    r"|yarn\.(?:appMasterEnv|(?:am|driver|executor)\.resource)"
    r"|kubernetes\.(?:driverEnv|node\.selector|(?:driver|executor)\.(?:annotation|label|node\.selector|secretKeyRef"
    r"|secrets|volumes|podTemplate)|driver\.service\.(?:annotation|label)|authenticate))\..+"
)
"""Names of which the user chooses a part."""

OVERRULED: Mapping[str, str] = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4096",
    "spark.sql.execution.arrow.maxBytesPerBatch": "131072",
    "spark.sql.execution.pandas.udf.buffer.size": "4096",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.subexpressionElimination.enabled": "false",
}
"""Settings that lanes of queries set themselves (flows/sql/session.py), and to what."""

PORTS = ("spark.ui.port", "spark.driver.port", "spark.blockManager.port", "spark.driver.blockManager.port")
"""Ports on which a driver in local mode listens. The engine for queries uses the next ones."""

_HIGHEST_PORT = 65_535

_MEMORY = re.compile(r"(?P<number>[0-9]+)(?P<unit>[kmgt])", re.IGNORECASE)
_UNITS = {"k": 10, "m": 20, "g": 30, "t": 40}
_LEAST_HEAP = 450 * 2**20
"""Spark starts neither driver nor executor with less (UnifiedMemoryManager)."""

_SURVIVOR = 29 / 30
"""Share of -Xmx that a JVM with the serial collector reports as its memory."""


def check_spark_keys(
    properties: Properties, master: SparkMaster, flows: Sequence[FlowSettings], problems: ProblemLog
) -> None:
    """Add problems for settings that Spark does not know, that lanes overrule, or with which lanes cannot start."""
    queries = any(flow.enabled and flow.queries.in_order for flow in flows)
    for key in properties:
        if key.startswith(_PREFIX):
            _check_name(key, properties, problems, queries=queries)
    for key, ours in OVERRULED.items():
        if (found := properties.get(key)) is not None and found.text.strip().lower() != ours:
            found.warn(problems, f"has no effect: lanes of queries set it to {ours}", "remove the line")
    if queries and ANSI in properties and properties[ANSI].text.strip().lower() != "true":
        properties[ANSI].refuse(
            problems,
            "must be true with queries: what cannot be computed would become NULL instead of failing, and a record "
            "whose value is NULL deletes its key in a compacted topic",
            "remove the line, and write try_cast or try_divide in the query where NULL is intended",
        )
    _check_ports(properties, problems, queries=queries and not master.is_cluster)
    _check_memory(properties, "spark.driver.memory", round(_LEAST_HEAP / _SURVIVOR), problems)
    if master.is_cluster:
        _check_memory(properties, "spark.executor.memory", _LEAST_HEAP, problems)
    _check_cores(properties, master, problems)


def _check_name(key: str, properties: Properties, problems: ProblemLog, *, queries: bool) -> None:
    if key in _names() or _OPEN.fullmatch(key):
        return
    close = get_close_matches(key, _names(), n=1, cutoff=_ALIKE)
    if not close:
        return  # of a plugin, such as spark.rapids.sql.enabled
    value, rule, fix = properties[key], "is no setting of Spark, which ignores it", f"did you mean {close[0]}?"
    if close[0] in properties:
        fix = f"correct the line of {close[0]}, then remove this line"
    if queries and key.startswith(_SQL):
        value.refuse(problems, f"{rule}, so queries can have other results than intended", fix)
    else:
        value.warn(problems, rule, fix)


@cache
def _names() -> frozenset[str]:
    names: Mapping[str, str] = load("mm2.config.checks.spark_names:NAMES")
    return frozenset(prefix + name for prefix, those in names.items() for name in those.split())


def _check_ports(properties: Properties, problems: ProblemLog, *, queries: bool) -> None:
    most = _HIGHEST_PORT - 1 if queries else _HIGHEST_PORT
    for name in PORTS:
        if (value := properties.get(name)) is None:
            continue
        text = value.text.strip()
        if not text.isdecimal() or int(text) > most:
            value.refuse(
                problems,
                f"must be a port of at most {most}"
                + (": the engine for queries uses the next one" if text == str(_HIGHEST_PORT) else ""),
                "correct the port, or remove the line",
            )


def _check_memory(properties: Properties, name: str, least: int, problems: ProblemLog) -> None:
    if (value := properties.get(name)) is None:
        return
    match = _MEMORY.fullmatch(value.text.strip())
    if match is None:
        value.refuse(problems, "must be a whole number with k, m, g or t, for Java", f"write {name} = 1g")
    elif int(match["number"]) << _UNITS[match["unit"].lower()] < least:
        value.refuse(
            problems,
            f"must be at least {-(-least >> 20)}m: Spark does not start with less",
            "remove the line to use the default (512m, or 1g for queries)",
        )


def _check_cores(properties: Properties, master: SparkMaster, problems: ProblemLog) -> None:
    """Add an error if no lane fits into an executor: it would wait for one for ever."""
    for name in ("spark.executor.cores", "spark.executor.instances", "spark.cores.max", "spark.task.cpus"):
        if (value := properties.get(name)) is not None and not (value.text.strip().isdecimal() and int(value.text)):
            value.refuse(problems, "must be a whole number of at least 1, or no lane starts", "remove the line")
            return
    task = _number(properties, "spark.task.cpus")
    if task > 1 and not master.is_cluster:
        properties["spark.task.cpus"].refuse(
            problems,
            f"must be 1 without a Spark cluster: a lane needs one thread, and would wait for {task}",
            "remove the line",
        )
    elif master.is_cluster and task > (executor := _number(properties, "spark.executor.cores")):
        properties["spark.task.cpus"].refuse(
            problems,
            f"no lane starts: it needs {task} cores, and an executor has {executor}",
            f"remove the line, or add spark.executor.cores = {task}",
        )
    most = properties.get("spark.cores.max")
    if master.is_cluster and most is not None and int(most.text) < _number(properties, "spark.executor.cores"):
        most.refuse(
            problems,
            "no executor starts: spark.executor.cores is higher",
            "remove the line, or that of spark.executor.cores",
        )


def _number(properties: Properties, name: str) -> int:
    return int(properties[name].text) if name in properties else 1
