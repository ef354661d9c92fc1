"""Two aliases with the same brokers: mostly a line that was copied and not changed."""

from __future__ import annotations

from collections.abc import Iterable

from mm2.config.java_types import read_list
from mm2.config.problems import ProblemLog
from mm2.config.settings import FlowSettings
from mm2.config.values import Properties, Value


def check_one_cluster(file: Properties, flows: Iterable[FlowSettings], problems: ProblemLog) -> None:
    """A warning for each pair of aliases, as it may be meant. Only addresses are compared here; a node compares the
    brokers' cluster ids."""
    pairs = dict.fromkeys(tuple(sorted((one.flow.source, one.flow.target))) for one in flows if one.enabled)
    for pair in pairs:
        keys = [f"{alias}.bootstrap.servers" for alias in pair]
        if not all(key in file for key in keys):
            continue
        first, second = sorted((file[key] for key in keys), key=_line)
        if both := sorted(_servers(first) & _servers(second)):
            second.warn(
                problems,
                f"names {both[0]}, which line {_line(first)} names as well, so {' and '.join(pair)} are one"
                " cluster. Correct the one that is wrong, unless that is meant.",
            )


def _servers(value: Value) -> set[str]:
    return {server.lower() for server in read_list(value.text)}


def _line(value: Value) -> int:
    assert value.entry is not None
    return value.entry.line
