"""Check for aliases with the same brokers, usually a line that was copied and not changed."""

from __future__ import annotations

from collections.abc import Iterable

from mm2.config.grammar.java_types import read_list
from mm2.config.grammar.problems import ProblemLog
from mm2.config.grammar.values import Properties, Value
from mm2.config.settings import FlowSettings


def check_one_cluster(file: Properties, flows: Iterable[FlowSettings], problems: ProblemLog) -> None:
    """Add a warning for each pair of aliases that share a broker; it can be intended.

    Only addresses are compared here. A running node compares the cluster IDs.
    """
    pairs = dict.fromkeys(tuple(sorted((one.flow.source, one.flow.target))) for one in flows if one.enabled)
    for pair in pairs:
        keys = [f"{alias}.bootstrap.servers" for alias in pair]
        if not all(key in file for key in keys):
            continue
        first, second = sorted((file[key] for key in keys), key=_line)
        if both := sorted(_servers(first) & _servers(second)):
            second.warn(
                problems,
                f"{both[0]} is in line {_line(first)} too, so {' and '.join(pair)} are the same cluster",
                f"correct line {_line(first)} or {_line(second)}, unless this is intended",
            )


def _servers(value: Value) -> set[str]:
    return {server.lower() for server in read_list(value.text)}


def _line(value: Value) -> int:
    assert value.entry is not None
    return value.entry.line
