"""Access to the clusters of a file without a node: with short timeouts, and a progress display."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from mm2.cli.errors import UsageError
from mm2.config.load import load
from mm2.config.settings import FlowSettings, NodeSettings
from mm2.core.printable import printable_lines
from mm2.kafka.client.short_timeouts import (
    ANSWER_MS,
    REACHED_WITHIN_S,
    connection_error,
    reason,
    short_timeout_cluster,
)
from mm2.kafka.errors import SecuritySettingsInvalid

__all__ = [
    "ANSWER_MS",
    "REACHED_WITHIN_S",
    "ask",
    "choose_flow",
    "connection_error",
    "note",
    "read_settings",
    "reason",
    "short_timeout_cluster",
]

T = TypeVar("T")


def read_settings(file: Path) -> NodeSettings:
    """Return the settings of ``file``. Raises UsageError with its first error."""
    if file.parts[:1] in (("http:",), ("https:",)):
        raise UsageError("this command reads from the clusters, not from a node: use FILE instead of a URL")
    loaded = load(file)
    if loaded.settings is not None:
        return loaded.settings
    first, *others = [problem for problem in loaded.problems if not problem.is_warning]
    more = f"; mm2 check {file} shows {len(others)} more" if others else ""
    raise UsageError(f"{first}{more}")


def choose_flow(settings: NodeSettings, name: str | None) -> FlowSettings:
    """Return the flow ``name``, even if it is disabled, or the only enabled flow. Raises UsageError."""
    enabled = [flow for flow in settings.flows if flow.enabled]
    there_are = f"Enabled flows: {', '.join(str(flow.flow) for flow in enabled) or 'none'}."
    if name is None:
        if len(enabled) == 1:
            return enabled[0]
        raise UsageError(f"add --flow 'A->B', because the file has several enabled flows, or none. {there_are}")
    for flow in settings.flows:
        if str(flow.flow) == name.replace(" ", ""):
            return flow
    raise UsageError(f"no flow {name!r} in the file. {there_are}")


def ask(answer: Coroutine[Any, Any, T], what: str) -> T:
    """Run ``answer``. A terminal shows ``what`` and the elapsed time meanwhile. Raises UsageError for certificates and
    keys that cannot be used."""
    columns = (TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        progress.add_task(what, total=None)
        try:
            return asyncio.run(answer)
        except SecuritySettingsInvalid as error:
            raise UsageError(str(error)) from error


def note(text: str) -> None:
    """Print a remark to stderr; the result of a command is on stdout."""
    print(printable_lines(text), file=sys.stderr)  # noqa: T201 the output of a command
