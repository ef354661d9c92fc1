"""Everything that is wrong with a flow, each thing once and with its place: for /health, ``mm2 status`` and the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mm2.core.lease import TaskState
from mm2.node.published import FlowStatus, TopicStatus
from mm2.rest.shapes import FlowShape, TopicShape

NO_WORDS = "no reason given"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One thing that is wrong. ``place`` is a task, topic or partition, or empty: the flow as a whole. ``state`` is the
    state of that place."""

    place: str = ""
    state: TaskState
    words: str

    def __str__(self) -> str:
        return f"{self.place}: {self.words}" if self.place else self.words


def troubles(flow: FlowStatus | FlowShape) -> list[Trouble]:
    """The flow's own first, then those of its tasks, topics and partitions.

    What a flow says in its reasons about one of these is not repeated. A flow that does not run, without a reason of
    its own and without anything FAILED in it, is explained by the first of these that is in the same state; without
    any, one trouble says so.
    """
    placed = _placed(flow)
    said = _said(placed)
    own = [Trouble(state=flow.state, words=reason) for reason in flow.reasons if reason not in said]
    explained = own or any(trouble.state is TaskState.FAILED for trouble in placed)
    if flow.state is not TaskState.RUNNING and not explained:
        cause = next((trouble for trouble in placed if trouble.state is flow.state), None)
        own = [Trouble(state=flow.state, words=NO_WORDS if cause is None else str(cause))]
        placed = [trouble for trouble in placed if trouble is not cause]
    return own + placed


def placed_words(flow: FlowStatus | FlowShape) -> set[str]:
    """What is wrong with the flow's tasks, topics and partitions, as its reasons may say it too."""
    return _said(_placed(flow))


def _placed(flow: FlowStatus | FlowShape) -> list[Trouble]:
    return [*_of_tasks(flow), *(trouble for topic in flow.topics for trouble in _of_topic(topic))]


def _said(placed: Iterable[Trouble]) -> set[str]:
    return {trouble.words for trouble in placed} | {str(trouble) for trouble in placed}


def _of_tasks(flow: FlowStatus | FlowShape) -> Iterator[Trouble]:
    for task in flow.tasks:
        if task.error is not None or task.state is TaskState.FAILED:
            yield Trouble(place=f"task {task.id} on {task.node}", state=task.state, words=task.error or NO_WORDS)


def _of_topic(topic: TopicStatus | TopicShape) -> Iterator[Trouble]:
    """The topic's own when there is one, and those of its partitions, which also decide the topic's state."""
    partitions = [
        Trouble(
            place=f"topic {topic.topic} partition {partition.partition}",
            state=partition.state,
            words=partition.error or NO_WORDS,
        )
        for partition in topic.partitions
        if partition.error is not None or partition.state is TaskState.FAILED
    ]
    explained = any(trouble.state is TaskState.FAILED for trouble in partitions)
    if topic.error is not None or (topic.state is TaskState.FAILED and not explained):
        yield Trouble(place=f"topic {topic.topic}", state=topic.state, words=topic.error or NO_WORDS)
    yield from partitions
