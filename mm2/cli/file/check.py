"""``mm2 check``: every problem of a file, without connecting to anything."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from mm2.cli.errors import DONE, USAGE
from mm2.config.checks.exposure import check_file_mode
from mm2.config.grammar.problem_report import counted, summary, write_problems
from mm2.config.grammar.problems import Problem, ProblemLog
from mm2.config.load import Loaded, load_file
from mm2.config.settings import FlowSettings
from mm2.config.sql.topic_queries import TopicQuery
from mm2.core.settings.row_query import RowQuery


def check(file: Path, *, clusters: Sequence[str] = (), json: bool = False, strict: bool = False) -> int:
    """Print every problem of a file and return the exit code."""
    return check_file(file, clusters, sys.stdout, as_json=json, with_mode=True, strict=strict)


def check_file(
    path: Path,
    clusters: Sequence[str],
    out: TextIO,
    *,
    as_json: bool = False,
    with_mode: bool = False,
    strict: bool = False,
) -> int:
    """Write the problems of ``path`` to ``out``, and what would run if none of them is an error.

    ``with_mode``: also a problem of the file's mode, on which its content has no influence. ``strict``: the file is
    rejected for warnings, too, if they are about its content and do not depend on the time: the same file must pass
    tomorrow, and from a Secret of Kubernetes.
    """
    loaded, file = load_file(path, clusters)
    judged = [problem for problem in loaded.problems if not (problem.is_warning and problem.is_temporary)]
    rejected = loaded.settings is None or (strict and bool(judged))
    if with_mode and file is not None:
        of_mode = ProblemLog(str(path))
        check_file_mode(path, file.properties, of_mode)
        loaded = replace(loaded, problems=(*loaded.problems, *of_mode.in_order()))
    if as_json:
        print(json.dumps(_document(path, loaded, ok=not rejected), indent=2), file=out)
    else:
        write_problems(loaded.problems, out)
        print(_last_line(path, loaded, rejected=rejected), file=out)
    return USAGE if rejected else DONE


def _last_line(path: Path, loaded: Loaded, *, rejected: bool) -> str:
    if loaded.settings is None:
        return f"{path}: {summary(loaded.problems)}"
    if rejected:
        return f"{path}: {summary(loaded.problems)}; --strict accepts none"
    flows = loaded.settings.flows
    idle = (
        "no flow is enabled; heartbeats only: " if all(flow.heartbeats and not flow.enabled for flow in flows) else ""
    )
    return f"ok: {idle}{', '.join(str(flow.flow) if idle else _flow(flow) for flow in flows)}" + (
        f" ({counted(len(loaded.problems), 'warning')})" if loaded.problems else ""
    )


def _flow(flow: FlowSettings) -> str:
    if flow.enabled:
        names = ", ".join(query.name for query in flow.queries.in_order)
        return f"{flow.flow} (SQL: {names})" if names else str(flow.flow)
    return f"{flow.flow} (heartbeats only)" if flow.heartbeats else f"{flow.flow} (idle)"


def _document(path: Path, loaded: Loaded, *, ok: bool) -> dict[str, Any]:
    """Return what ``--json`` prints."""
    flows = () if loaded.settings is None else loaded.settings.flows
    return {
        "file": str(path),
        "ok": ok,
        "errors": sum(not problem.is_warning for problem in loaded.problems),
        "warnings": sum(problem.is_warning for problem in loaded.problems),
        "problems": [_problem(problem) for problem in loaded.problems],
        "flows": [
            {
                "flow": str(flow.flow),
                "enabled": flow.enabled,
                "heartbeats": flow.heartbeats,
                "queries": [_query(query) for query in flow.queries.in_order],
            }
            for flow in flows
        ],
    }


def _query(query: TopicQuery) -> dict[str, Any]:
    sql = query.action if isinstance(query.action, RowQuery) else None
    return {
        "name": query.name,
        "topics": list(query.topics.elements),
        "sets": None if sql is None else list(sql.columns),
        "drops": None if sql is None else sql.condition is not None,
        "sha256": None if sql is None else sql.sha256,
        "transform": str(query.action) if sql is None else None,
    }


def _problem(problem: Problem) -> dict[str, Any]:
    return {
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "severity": "warning" if problem.is_warning else "error",
        "key": problem.key,
        "value": problem.value,
        "message": problem.rule,
        "fix": problem.fix,
    }
