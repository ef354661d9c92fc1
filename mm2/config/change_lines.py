"""The differences between two files, and between nodes, as sentences for the log and for ``/flows``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from mm2.config.changes import Change, FileDiff, FlowDiff
from mm2.config.problems import Problem
from mm2.config.reach import Reach
from mm2.core.names import Flow

MOST_LINES = 40
"""Changes and problems that the log is told of one by one: two screens. Who changes more knows what he did."""

MOST_NAMES = 6
"""Keys and flows that one sentence names."""


def changed_lines(diff: FileDiff, pending: Sequence[Change] = ()) -> tuple[str, ...]:
    """What a new file changes: one line for all, then one a change. ``pending``: what already waits, with this file,
    for the node to be started again."""
    return (f"{diff.file} has changed: {_summary(diff, pending)}", *_cut(_details(diff)))


def unchanged_line(file: Path, *, repaired: bool) -> str:
    """A file that was read again and says what the node runs on; ``repaired``: the time before it did not."""
    if repaired:
        return f"{file} is good again, and says what this node runs on"
    return f"{file} was read again: it says what this node runs on"


def broken_lines(file: Path, problems: Iterable[Problem]) -> tuple[str, ...]:
    """A new file that cannot be taken over, with all that is wrong with it."""
    errors = [problem for problem in problems if not problem.is_warning]
    return (
        f"{file} has changed and cannot be taken over, this node goes on as before: {_counted(len(errors), 'error')}",
        *_cut(map(str, errors)),
    )


def broken_reason(problems: Iterable[Problem]) -> str:
    """The same for ``/flows``, in one sentence."""
    first, *more = (problem for problem in problems if not problem.is_warning)
    others = f" (and {_counted(len(more), 'more error', 'more errors')}, see the log)" if more else ""
    return f"a new configuration cannot be taken over, this node goes on as before: {first}{others}"


def pending_reason(pending: Sequence[Change]) -> str:
    """For ``/flows``: what is in the file and not in force. ``pending`` is not empty."""
    return f"in force when this node is started again: {_named(_names(pending))}"


def restart_reason(diff: FlowDiff) -> str:
    """For ``/flows``, while a flow starts again: why it does."""
    return f"starts again with a changed configuration: {_named(_names(_deep(diff)))}"


def disagreement(flow: Flow, *, leader: str, others: Iterable[str], keys: Sequence[str] = ()) -> str:
    """Nodes that read something else out of their files than the leader, whose word counts. ``keys``: what differs,
    where that is known."""
    nodes = sorted(others)
    what = f" differ in {_named(keys)}" if keys else " are not the same"
    verb = "have" if len(nodes) > 1 else "has"
    return (
        f"{_named(nodes)} {verb} another configuration for {flow} than {leader}, which leads: the files{what}. What "
        f"{leader} says counts until another node leads"
    )


def _summary(diff: FileDiff, pending: Sequence[Change]) -> str:
    goes_on = {flow.flow for flow in diff.changed if flow.reach is Reach.RUNNING}
    restarts = {flow.flow for flow in diff.changed if flow.reach is Reach.FLOW}
    parts = [
        *_flows(diff.appeared, "is new", "are new"),
        *_flows(diff.vanished, "ends", "end"),
        *_flows([f.flow for f in diff.changed if f.flow in restarts], "starts again", "start again"),
        *_flows([f.flow for f in diff.changed if f.flow in goes_on], "goes on otherwise", "go on otherwise"),
    ]
    if pending:
        parts.append(f"{_named(_names(pending))} {_wait(pending)} until the node is started again")
    return "; ".join(parts) or "nothing is to be done"


def _details(diff: FileDiff) -> Iterator[str]:
    """Every change once, with the flows that it reaches in the same way."""
    reached: dict[Change, list[Flow]] = {}
    for flow in diff.changed:
        for change in flow.changes:
            reached.setdefault(change, []).append(flow.flow)
    for change, flows in reached.items():
        yield f"  {change}: {_consequence(change.reach, flows)}"
    for change in diff.node:
        yield f"  {change}: {_consequence(change.reach, ())}"
    for change in diff.idle:
        yield f"  {change}: changes nothing"


def _consequence(reach: Reach, flows: Sequence[Flow]) -> str:
    names = _named([str(flow) for flow in flows]) or "this node"
    return {
        Reach.NOTHING: "changes nothing",
        Reach.RUNNING: f"taken over by {names}",
        Reach.FLOW: f"{names} {'start' if len(flows) > 1 else 'starts'} again",
        Reach.NODE: "in force when the node is started again",
    }[reach]


def _deep(diff: FlowDiff) -> list[Change]:
    return [change for change in diff.changes if change.reach is diff.reach]


def _flows(flows: Sequence[Flow], one: str, many: str) -> Iterator[str]:
    if flows:
        yield f"{_named([str(flow) for flow in flows])} {one if len(flows) == 1 else many}"


def _wait(pending: Sequence[Change]) -> str:
    return "waits" if len(_names(pending)) == 1 else "wait"


def _names(changes: Iterable[Change]) -> list[str]:
    return list(dict.fromkeys(change.key for change in changes))


def _named(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:MOST_NAMES])} and {more} more"


def _cut(lines: Iterable[str]) -> tuple[str, ...]:
    found = tuple(lines)
    more = len(found) - MOST_LINES
    return found if more <= 0 else (*found[:MOST_LINES], f"  and {more} more")


def _counted(count: int, one: str, many: str = "") -> str:
    return f"{count} {one}" if count == 1 else f"{count} {many or one + 's'}"
