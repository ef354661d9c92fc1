"""``mm2 explain``: the settings in force, each with the line of the file it came from."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TextIO

from mm2.cli.errors import DONE, USAGE
from mm2.config.explanation import DEFAULT, Section, explain_flow, explain_node, explain_rest
from mm2.config.grammar.problem_report import counted, write_problems, write_rejection
from mm2.config.grammar.problems import ProblemLog
from mm2.config.load import load_file
from mm2.config.settings import FlowSettings
from mm2.core.printable import one_line

ORIGIN_AT = 72
"""Column of the origins: most settings fit before it, and a line number after it fits a terminal of 80 columns."""


def explain(file: Path, *, flow: str | None = None, non_default: bool = False, clusters: Sequence[str] = ()) -> int:
    """Print the effective settings and return the exit code."""
    return explain_file(file, flow, clusters, sys.stdout, non_default=non_default)


def explain_file(
    path: Path, flow: str | None, clusters: Sequence[str], out: TextIO, *, non_default: bool = False
) -> int:
    """Write the settings of ``flow``, or of the node and all its flows, to ``out``.

    A file with errors has no settings: all its problems are written instead, as ``mm2 check`` does. Warnings are only
    counted, in the last line.
    """
    loaded, file = load_file(path, clusters)
    if loaded.settings is None or file is None:
        write_rejection(path, loaded.problems, out)
        return USAGE
    flows = [settings for settings in loaded.settings.flows if flow in (None, str(settings.flow))]
    if not flows:
        names = ", ".join(str(settings.flow) for settings in loaded.settings.flows)
        log = ProblemLog(str(path))
        log.error(f"has no flow {flow}", f"use one of its flows: {names}", key="--flow")
        write_problems(log.in_order(), out)
        return USAGE
    if flow is None:
        _write("", explain_node(file), out, non_default)
    for settings in flows:
        print(_title(settings), file=out)
        _write("  ", explain_flow(file, settings), out, non_default)
    if flow is None:
        _write("", (explain_rest(file),), out, non_default)
    if loaded.problems:
        print(f"{counted(len(loaded.problems), 'warning')}; see mm2 check {path}", file=out)
    return DONE


def _title(settings: FlowSettings) -> str:
    does = [
        *(["replicates"] if settings.enabled else []),
        *([f"writes heartbeats into {settings.flow.target}"] if settings.heartbeats else []),
    ]
    return f"{settings.flow}  {' and '.join(does) or 'does nothing'}\n"


def _write(indent: str, sections: Iterable[Section], out: TextIO, non_default: bool) -> None:
    for section in sections:
        lines = [line for line in section.lines if not (non_default and line.origin == DEFAULT)]
        if not lines:
            continue
        print(f"{indent}{section.title}", file=out)
        for line in lines:
            setting = one_line(f"{indent}  {line.key} = {line.value}")
            print(f"{setting:{ORIGIN_AT}}  {one_line(line.origin)}", file=out)
        print(file=out)
