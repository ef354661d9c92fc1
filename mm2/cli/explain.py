"""``mm2 explain``: the settings in force, each with the line of the file it came from."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, TextIO

from cyclopts import Parameter

from mm2.cli.parameters import Clusters, File
from mm2.cli.trouble import DONE, USAGE
from mm2.config.explanation import Section, explain_flow, explain_node, explain_rest
from mm2.config.load import load_file
from mm2.config.problems import one_line
from mm2.config.settings import FlowSettings

ORIGIN_AT = 72
"""Column of the origins: most settings fit before it, and a line number after it fits a terminal of 80 columns."""


def explain(
    file: File,
    /,
    *,
    flow: Annotated[str | None, Parameter(show_default=False, help="Only this flow, written A->B.")] = None,
    clusters: Clusters = (),
) -> int:
    """Print the settings in force; returns the exit code."""
    return explain_file(file, flow, clusters, sys.stdout)


def explain_file(path: Path, flow: str | None, clusters: Sequence[str], out: TextIO) -> int:
    """Write the settings of ``flow``, or of the node and all its flows, to ``out``; problems where there are errors."""
    loaded, file = load_file(path, clusters)
    if loaded.settings is None or file is None:
        print(*(problem for problem in loaded.problems if not problem.is_warning), sep="\n", file=out)
        return USAGE
    flows = [settings for settings in loaded.settings.flows if flow in (None, str(settings.flow))]
    if not flows:
        names = ", ".join(str(settings.flow) for settings in loaded.settings.flows)
        print(f"{path}: --flow  there is no flow {flow} to explain. There are {names}.", file=out)
        return USAGE
    if flow is None:
        _write("", explain_node(file), out)
    for settings in flows:
        print(_title(settings), file=out)
        _write("  ", explain_flow(file, settings), out)
    if flow is None:
        _write("", (explain_rest(file),), out)
    return DONE


def _title(settings: FlowSettings) -> str:
    does = [
        *(["replicates"] if settings.enabled else []),
        *([f"writes heartbeats into {settings.flow.target}"] if settings.heartbeats else []),
    ]
    return f"{settings.flow}  {' and '.join(does) or 'does nothing'}\n"


def _write(indent: str, sections: Iterable[Section], out: TextIO) -> None:
    for section in sections:
        if not section.lines:
            continue
        print(f"{indent}{section.title}", file=out)
        for line in section.lines:
            setting = one_line(f"{indent}  {line.key} = {line.value}")
            print(f"{setting:{ORIGIN_AT}}  {one_line(line.origin)}", file=out)
        print(file=out)
