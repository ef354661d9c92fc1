"""Problems of tasks, topics and partitions, grouped by cause: one line for 5,000 partitions that wait for a cluster.

Texts have one cause if they are equal apart from the names of their own topic and partition. A query that cannot run is
one cause, though its source tasks and their partitions have failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mm2.core.lanes.task_states import TaskState

NAMED = 5
"""Topics, tasks and nodes that a line names."""

RANGES = 8
"""Ranges of partitions of one topic that a line names."""

_IN_NAMES = frozenset("_-")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedProblem:
    """A problem of a task, topic or partition.

    ``task`` is empty for a topic or partition, and ``topic`` for a task; ``partition`` None: the topic itself.
    ``node`` is the node of a task. ``reason`` is None if the place is FAILED without a message.
    """

    state: TaskState
    reason: str | None
    topic: str = ""
    remote_topic: str = ""
    partition: int | None = None
    task: str = ""
    node: str = ""

    @property
    def place(self) -> str:
        """``task MirrorSourceConnector-0 on node-1``, ``topic orders``, ``topic orders partition 3``."""
        if self.task:
            return f"task {self.task} on {self.node}" if self.node else f"task {self.task}"
        return f"topic {self.topic}" if self.partition is None else f"topic {self.topic} partition {self.partition}"

    @property
    def text(self) -> str:
        """The reason, without the place."""
        if not self.reason:
            return without_message(self.node)
        return self.reason.removeprefix(f"{self.place}: ")

    @property
    def cause(self) -> str:
        """The reason without the names of the topic and the partition."""
        text = self.text
        if self.partition is not None:
            text = _replaced(text, f"{self.remote_topic}-{self.partition}", "the remote partition")
            text = _replaced(text, f"{self.topic}-{self.partition}", "the partition")
        if self.topic:
            text = _replaced(text, f"remote topic {self.remote_topic}", "the remote topic")
            text = _replaced(text, self.remote_topic, "the remote topic")
            text = _replaced(text, self.topic, "the topic")
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedProblem:
    """Problems with the same state and cause, of topics, or of partitions and tasks; ``members`` are their places.
    ``__str__``: ``place: reason``."""

    place: str
    state: TaskState
    reason: str
    members: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


def grouped(problems: Iterable[PlacedProblem]) -> list[GroupedProblem]:
    """Return the problems by cause, in the order of the first of each."""
    causes: dict[tuple[str, TaskState, str], list[PlacedProblem]] = {}
    for one in problems:
        kind = "topic" if not one.task and one.partition is None else "work"
        causes.setdefault((kind, one.state, one.cause), []).append(one)
    return [
        GroupedProblem(
            place=place_of(members),
            state=state,
            reason=cause if len(members) > 1 else members[0].text,
            members=tuple(one.place for one in members),
        )
        for (_, state, cause), members in causes.items()
    ]


def reasons(problems: Iterable[PlacedProblem]) -> list[str]:
    """Return the problems that are reasons of a flow: those of topics, and of partitions that do not run."""
    stopped = (TaskState.FAILED, TaskState.WAITING)
    return [str(one) for one in grouped(one for one in problems if one.partition is None or one.state in stopped)]


def place_of(members: Sequence[PlacedProblem]) -> str:
    """Return the place of several topics, or of partitions and tasks, in words; of one, its own."""
    if len(members) == 1:
        return members[0].place
    tasks = [one for one in members if one.task]
    if tasks and len(tasks) < len(members):
        return f"{place_of([one for one in members if not one.task])} and {place_of(tasks)}"
    if tasks:
        nodes = list(dict.fromkeys(one.node for one in members if one.node))
        where = f" on {named(nodes)}" if nodes else ""
        return f"{len(members):,} tasks ({named([one.task for one in members])}){where}"
    if members[0].partition is None:
        return f"{len(members):,} topics ({named([one.topic for one in members])})"
    return partitions_in_words((one.topic, one.partition) for one in members if one.partition is not None)


def partitions_in_words(partitions: Iterable[tuple[str, int]]) -> str:
    """``topic orders partition 3``, ``topic orders partitions 0-4, 7``, ``15 partitions of 3 topics (a, b, c)``."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    count = sum(map(len, by_topic.values()))
    if len(by_topic) > 1:
        return f"{count:,} partitions of {len(by_topic):,} topics ({named(list(by_topic))})"
    ((topic, numbers),) = by_topic.items()
    if count == 1:
        return f"topic {topic} partition {numbers[0]}"
    ranges = _ranges(sorted(numbers))
    if len(ranges) > RANGES:
        return f"{count:,} partitions of topic {topic}"
    return f"topic {topic} partitions {', '.join(ranges)}"


def named(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"


def without_message(node: str) -> str:
    """Return the reason for a failure without a message. ``node``: where it failed, or nothing."""
    return f"it failed without a message; see the log of {f'node {node}' if node else 'its node'}"


def _ranges(numbers: Sequence[int]) -> list[str]:
    """``[0, 1, 2, 7]`` is ``0-2`` and ``7``."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    return [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in found]


def _replaced(text: str, name: str, word: str) -> str:
    """Return ``text`` with ``word`` for each ``name`` that is not a part of a longer name."""
    at = text.find(name) if name else -1
    while at >= 0:
        end = at + len(name)
        if _is_name_before(text, at) or _is_name_after(text, end):
            at = text.find(name, at + 1)
        else:
            text = f"{text[:at]}{word}{text[end:]}"
            at = text.find(name, at + len(word))
    return text


def _is_name_before(text: str, at: int) -> bool:
    return at > 0 and (text[at - 1].isalnum() or text[at - 1] in "_-.")


def _is_name_after(text: str, end: int) -> bool:
    after = text[end : end + 2]
    if after[:1] == ".":
        return after[1:].isalnum() or after[1:] in _IN_NAMES
    return after[:1].isalnum() or after[:1] in _IN_NAMES
