"""Messages about the differences between two files, and between nodes, for the log and for ``/flows``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from mm2.config.grammar.problem_report import counted
from mm2.config.grammar.problems import Problem
from mm2.config.keys.update_mode import UpdateMode
from mm2.config.reload.changes import Change, FileDiff, FlowDiff
from mm2.core.naming.names import Flow

MOST_LINES = 40
"""Maximum number of changes and problems that are logged one by one: two screens."""

MOST_NAMES = 6
"""Maximum number of keys and flows in one message."""


def changed_lines(diff: FileDiff, pending: Sequence[Change] = ()) -> tuple[str, ...]:
    """Return the log lines of a changed file: a summary, then one line for each change. ``pending``: all changes that
    need a restart of the node, including those of earlier files."""
    return (f"{diff.file}: reloaded: {_summary(diff, pending)}", *_cut(_details(diff)))


def unchanged_line(file: Path, *, repaired: bool) -> str:
    """Return the log line of a reload without changes; ``repaired``: the previous reload found errors."""
    if repaired:
        return f"{file}: reloaded, errors corrected, no changes"
    return f"{file}: reloaded, no changes"


def broken_lines(file: Path, problems: Iterable[Problem]) -> tuple[str, ...]:
    """Return the log lines of a changed file with errors."""
    errors = [problem for problem in problems if not problem.is_warning]
    return (
        f"{file}: not reloaded, {counted(len(errors), 'error')}; keeping the previous configuration",
        *_cut(map(str, errors)),
    )


def broken_reason(problems: Iterable[Problem]) -> str:
    """Return the same as one message for ``/flows``."""
    first, *more = (problem for problem in problems if not problem.is_warning)
    others = f"; {counted(len(more), 'more error', 'more errors')} in the log" if more else ""
    return f"configuration not reloaded, keeping the previous one: {first}{others}"


def pending_reason(pending: Sequence[Change]) -> str:
    """Return the message for ``/flows`` about changes that need a restart of the node. ``pending`` is not empty."""
    return f"restart this node to apply: {_named(_names(pending))}"


def restart_reason(diff: FlowDiff) -> str:
    """Return the message for ``/flows`` while a flow restarts."""
    return f"restarting with a changed configuration: {_named(_names(_deep(diff)))}"


def disagreement(*, leader: str, others: Iterable[str], keys: Sequence[str] = ()) -> str:
    """Return the message about nodes whose files differ from the leader's. ``keys``: the differing keys, if known."""
    nodes = sorted(others)
    verb = "have" if len(nodes) > 1 else "has"
    what = f" (differing keys: {_named(keys)})" if keys else ""
    return (
        f"{_named(nodes)} {verb} a different configuration than leader {leader}{what}; the configuration of "
        f"{leader} applies until another node becomes leader"
    )


def _summary(diff: FileDiff, pending: Sequence[Change]) -> str:
    reconfigured = {flow.flow for flow in diff.changed if flow.update_mode is UpdateMode.RUNNING}
    restarts = {flow.flow for flow in diff.changed if flow.update_mode is UpdateMode.FLOW}
    parts = [
        *_flows(diff.appeared, "added"),
        *_flows(diff.vanished, "removed"),
        *_flows([f.flow for f in diff.changed if f.flow in restarts], "restarting"),
        *_flows([f.flow for f in diff.changed if f.flow in reconfigured], "reconfigured without restart"),
    ]
    if pending:
        parts.append(f"restart this node to apply {_named(_names(pending))}")
    if not parts and any(change.update_mode is UpdateMode.RUNNING for change in diff.node):
        return "this node reconfigured"
    return "; ".join(parts) or "no effect"


def _details(diff: FileDiff) -> Iterator[str]:
    """Return every change once, with the flows that it affects in the same way."""
    reached: dict[Change, list[Flow]] = {}
    for flow in diff.changed:
        for change in flow.changes:
            reached.setdefault(change, []).append(flow.flow)
    for change, flows in reached.items():
        yield f"  {change}: {_consequence(change.update_mode, flows)}"
    for change in diff.node:
        yield f"  {change}: {_consequence(change.update_mode, ())}"
    for change in diff.idle:
        yield f"  {change}: no effect"


def _consequence(update_mode: UpdateMode, flows: Sequence[Flow]) -> str:
    names = _named([str(flow) for flow in flows]) or "this node"
    return {
        UpdateMode.NOTHING: "no effect",
        UpdateMode.RUNNING: f"{names} reconfigured",
        UpdateMode.FLOW: f"{names} restarting",
        UpdateMode.NODE: "applied when this node is restarted",
    }[update_mode]


def _deep(diff: FlowDiff) -> list[Change]:
    return [change for change in diff.changes if change.update_mode is diff.update_mode]


def _flows(flows: Sequence[Flow], what: str) -> Iterator[str]:
    if flows:
        yield f"{_named([str(flow) for flow in flows])} {what}"


def _names(changes: Iterable[Change]) -> list[str]:
    return list(dict.fromkeys(change.key for change in changes))


def _named(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:MOST_NAMES])} and {more} more"


def _cut(lines: Iterable[str]) -> tuple[str, ...]:
    found = tuple(lines)
    more = len(found) - MOST_LINES
    return found if more <= 0 else (*found[:MOST_LINES], f"  and {more} more")
