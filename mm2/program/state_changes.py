"""The changes of state of flows, tasks, topics, partitions and clusters, as lines of the log.

FAILED is an ERROR, WAITING for a reason is a WARNING, and everything else is INFO. When something has recovered, its
line says how long it took, and from what. One line is for everything that changes together for one cause.

A. What lasts less than `SETTLE_S` is not logged: lanes report within a second or two of each other, and a rebalance
   stops a task for as long.
B. What has not run yet, only starts: waiting is then no WARNING. A flow that has not started after `STARTS_WITHIN_S`
   gets one.
C. A flow that changes all the time does not fill the log: after `LINES` lines each further one has to wait for
   `LINE_EVERY_S`; the number of those left out is logged instead.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mm2.core.lanes.task_states import TaskState
from mm2.core.problems.grouped_problems import PlacedProblem, place_of
from mm2.core.problems.times_in_words import length_text
from mm2.node.status.status_model import ClusterStatus, FlowStatus
from mm2.rest.merge.flow_problems import flow_problems, pause_of

SETTLE_S = 3.0
"""Lanes report, and the node publishes, every second; a task that moves starts within a second or two."""

STARTS_WITHIN_S = 60.0
"""Spark starts within ten seconds on an idle machine, and needs most of a minute on a busy one."""

LINES = 20
LINE_EVERY_S = 15.0
"""An outage causes a handful of lines; four a minute fill 1 MB in a day."""

_WORKS = frozenset({TaskState.RUNNING, TaskState.PAUSED})


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLine:
    """One line of the log. ``level`` is that of `logging`; ``flow`` names the flow, or nothing for a cluster."""

    level: int
    flow: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Now:
    """The current state of something; ``problem`` has its place, its state and the reason. ``moves``: a task that moves
    from one node to another."""

    problem: PlacedProblem
    moves: bool = False

    @property
    def state(self) -> TaskState:
        return self.problem.state


@dataclass(slots=True, kw_only=True)
class _Known:
    """What the log knows: the state since ``since``, and whether it ``ran`` since the node has it. ``changed``: since
    when it has another state, which is not logged yet."""

    now: _Now
    since: float
    ran: bool
    changed: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    before: _Now
    ran: bool
    now: _Now
    lasted_s: float


@dataclass(slots=True, kw_only=True)
class _Flow:
    """``known``: by kind, name and partition. ``credit``: lines that may be logged now; ``left_out``: those that were
    not logged."""

    known: dict[tuple[str, str, int], _Known] = field(default_factory=dict)
    began: float
    warned: bool = False
    credit: float = LINES
    credited: float
    left_out: int = 0


class StateChanges:
    """Compares each status with the one before it. One caller at a time."""

    def __init__(self) -> None:
        self._flows: dict[str, _Flow] = {}
        self._clusters: dict[str, ClusterStatus] = {}

    def take_clusters(self, clusters: Iterable[ClusterStatus]) -> list[StateLine]:
        """Return a line for each cluster that does not answer the node any more, or answers again."""
        lines = []
        for one in clusters:
            before = self._clusters.get(one.alias)
            if one.reachable is None or (before is not None and before.reachable is one.reachable):
                continue
            self._clusters[one.alias] = one
            if not one.reachable:
                text = f"cluster {one.alias} does not answer: {one.error or 'the reason is unknown'}"
                lines.append(StateLine(level=logging.WARNING, flow="", text=text))
            elif before is not None:
                known = before.since is not None and one.since is not None
                after = f" after {length_text(((one.since or 0) - (before.since or 0)) / 1_000)}" if known else ""
                lines.append(StateLine(level=logging.INFO, flow="", text=f"cluster {one.alias} answers again{after}"))
        return lines

    def take(self, flows: Sequence[FlowStatus], now: float) -> list[StateLine]:
        """Return the lines about what has changed until ``now``, in monotonic seconds. ``flows``: shares of a node."""
        self._flows = {flow.flow: self._flows.get(flow.flow) or _Flow(began=now, credited=now) for flow in flows}
        return [line for flow in flows for line in self._lines(self._flows[flow.flow], flow, now)]

    def _lines(self, log: _Flow, flow: FlowStatus, now: float) -> Iterator[StateLine]:
        current = dict(_states(flow))
        log.known = {key: one for key, one in log.known.items() if key in current}
        for key, one in current.items():
            known = log.known.get(key)
            if known is None:
                log.known[key] = _first(one, now)
            elif known.now.state is one.state:
                known.now, known.changed = one if one.problem.reason else known.now, None
            elif known.changed is None:
                known.changed = now
        lines = [*self._late_start(log, flow, now), *_worded(flow, self._settled(log, current, now))]
        yield from self._limited(log, flow.flow, lines, now)

    def _settled(self, log: _Flow, current: Mapping[tuple[str, str, int], _Now], now: float) -> list[_Change]:
        """Return the changes, if one of them has lasted long enough (A)."""
        pending = {key: one for key, one in log.known.items() if one.changed is not None}
        if not any(one.changed is not None and now - one.changed >= SETTLE_S for one in pending.values()):
            return []
        found = []
        for key, one in pending.items():
            assert one.changed is not None
            after = current[key]
            found.append(_Change(before=one.now, ran=one.ran, now=after, lasted_s=one.changed - one.since))
            log.known[key] = _Known(now=after, since=one.changed, ran=one.ran or after.state in _WORKS)
        return found

    @staticmethod
    def _late_start(log: _Flow, flow: FlowStatus, now: float) -> Iterator[StateLine]:
        known = log.known["flow", "", -1]
        if known.ran or log.warned or known.now.state is not TaskState.WAITING or now - log.began < STARTS_WITHIN_S:
            return
        log.warned = True
        text = f"{flow.flow} has not started for {length_text(now - log.began)}: {known.now.problem.text}"
        yield StateLine(level=logging.WARNING, flow=flow.flow, text=text)

    @staticmethod
    def _limited(log: _Flow, flow: str, lines: Iterable[StateLine], now: float) -> Iterator[StateLine]:
        """Yield the lines that may be logged now (C)."""
        log.credit = min(float(LINES), log.credit + (now - log.credited) / LINE_EVERY_S)
        log.credited = now
        if log.left_out and log.credit >= 1:
            log.credit -= 1
            count, log.left_out = log.left_out, 0
            text = f"{flow}: {count:,} more changes of state are not in the log; mm2 status shows the current states"
            yield StateLine(level=logging.WARNING, flow=flow, text=text)
        for line in lines:
            if log.credit >= 1:
                log.credit -= 1
                yield line
            else:
                log.left_out += 1


def _states(flow: FlowStatus) -> Iterator[tuple[tuple[str, str, int], _Now]]:
    """Yield what has a state, with it. A topic has one of its own only if it has an error."""
    yield ("flow", "", -1), _Now(problem=PlacedProblem(state=flow.state, reason=_reason(flow)))
    for task in flow.tasks:
        problem = PlacedProblem(state=task.state, reason=task.error, task=task.id, node=task.node)
        yield ("task", task.id, -1), _Now(problem=problem, moves=task.only_moves)
    for topic in flow.topics:
        name, remote = topic.topic, topic.remote_topic
        state = TaskState.FAILED if topic.error else TaskState.RUNNING
        own = PlacedProblem(state=state, reason=topic.error, topic=name, remote_topic=remote)
        yield ("topic", name, -1), _Now(problem=own)
        for one in topic.partitions:
            found = PlacedProblem(
                state=one.state, reason=one.error, topic=name, remote_topic=remote, partition=one.partition
            )
            yield ("partition", name, one.partition), _Now(problem=found)


def _reason(flow: FlowStatus) -> str | None:
    if flow.state is TaskState.PAUSED:
        return str(pause_of(flow))
    found = flow_problems(flow)
    if flow.state is TaskState.RUNNING or not found:
        return None
    more = f" (and {len(found) - 1:,} more: see /health)" if len(found) > 1 else ""
    return f"{found[0]}{more}"


def _first(one: _Now, now: float) -> _Known:
    """Return what is known of something new (B): only a failure is a change."""
    if one.state is not TaskState.FAILED:
        return _Known(now=one, since=now, ran=one.state in _WORKS)
    starts = _Now(problem=PlacedProblem(state=TaskState.WAITING, reason=None))
    return _Known(now=starts, since=now, ran=False, changed=now)


def _worded(flow: FlowStatus, changes: Iterable[_Change]) -> Iterator[StateLine]:
    """Yield a line for each group of changes with the same states and the same cause."""
    groups: dict[tuple[object, ...], list[_Change]] = {}
    for one in changes:
        task, topic, cause = bool(one.now.problem.task), bool(one.now.problem.topic), _cause(one)
        is_flow, is_topic = not (task or topic), topic and one.now.problem.partition is None
        kind = (is_flow, is_topic, task and not cause)
        key = (kind, one.before.state, one.now.state, one.ran, one.now.moves, cause)
        groups.setdefault(key, []).append(one)
    for members in groups.values():
        yield _line(flow, members)


def _told(change: _Change) -> PlacedProblem:
    """Return what explains the change: for a recovery, the state before it."""
    return change.before.problem if change.now.state is TaskState.RUNNING else change.now.problem


def _cause(change: _Change) -> str:
    told = _told(change)
    return told.cause if told.reason or told.state is TaskState.FAILED else ""


def _line(flow: FlowStatus, members: Sequence[_Change]) -> StateLine:
    one = members[0]
    problems = [member.now.problem for member in members]
    place = flow.flow
    if problems[0].task or problems[0].topic:
        place = f"{flow.flow}: {place_of(problems)}"
    verb = "is" if len(members) == 1 else "are"
    state, before = one.now.state, one.before.state
    lasted = length_text(max(member.lasted_s for member in members))
    cause = _cause(one)
    if cause and len(members) == 1:
        cause = _told(one).text
    if state is not TaskState.RUNNING:
        was = f" (was {before} for {lasted})" if one.ran else ""
        text = f"{place} {verb} {state}{was}{f': {cause}' if cause else ''}"
    elif one.ran or before is TaskState.FAILED:
        text = f"{place} {verb} RUNNING again after {lasted} {before}{f' ({cause})' if cause else ''}"
    else:
        text = f"{place} {verb} RUNNING after {lasted}"
    return StateLine(level=_level(one), flow=flow.flow, text=text)


def _level(change: _Change) -> int:
    if change.now.state is TaskState.FAILED:
        return logging.ERROR
    is_problem = change.now.state is TaskState.WAITING and bool(change.now.problem.reason) and change.ran
    return logging.WARNING if is_problem and not change.now.moves else logging.INFO
