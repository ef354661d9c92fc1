"""From the shares that the nodes of a flow show of it to the picture of the whole flow.

A share is what one node says: its own tasks and partitions, and where it leads also everything else, as far as its
books tell. In the whole

A. everything is there once; where the leader was asked: each task, topic and partition that it lists, and no other;
B. how a task or partition is, says the node that runs it;
C. what a node runs that could not be asked is WAITING, without positions, and a reason says why it was not;
D. what concerns the flow (leader, epoch, members, pauses, coverage) is the word of the leader of the newest epoch, or
   without it that of the node which has the newest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from pydantic import TypeAdapter

from mm2.core.lease import TaskState
from mm2.core.task_states import worst
from mm2.core.tasks import TaskId
from mm2.rest.shapes import FlowShape, LossShape, PartitionShape, TaskShape, TopicShape
from mm2.rest.troubles import placed_words

One = TypeVar("One", TaskShape, PartitionShape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What ``node`` shows of a flow."""

    node: str
    leads: bool
    flow: FlowShape


SHARE = TypeAdapter(Share)
"""A share on its way between nodes."""

Answers = Mapping[str, Share | str]
"""Of the flow's other nodes, by their ids; a text says why that node could not be asked."""


def merged(own: Share, answers: Answers) -> FlowShape:
    """The whole flow, as the node of ``own`` shows it; a flow without other nodes is what that node says."""
    if not answers:
        return own.flow
    told = [own, *(answers[node] for node in sorted(answers))]
    shares = [share for share in told if isinstance(share, Share)]
    silent = {node: why for node, why in sorted(answers.items()) if isinstance(why, str)}
    chief = max(shares, key=lambda share: (share.flow.epoch, share.leads, share is own))
    tasks = tuple(_tasks(chief, shares, silent))
    topics = tuple(_topics(chief, shares, silent))
    states = [*map(_own_state, shares), *(task.state for task in tasks), *(one.state for one in topics)]
    return replace(
        chief.flow,
        enabled=own.flow.enabled,
        state=worst(states),
        reasons=tuple(_reasons(chief, shares, silent)),
        tasks=tasks,
        topics=topics,
        losses=_losses(shares),
    )


def _own_state(share: Share) -> TaskState:
    """The state of the share, unless it is that of others by the leader's books: they have the word."""
    placed = [(task.node, task.state) for task in share.flow.tasks]
    placed += [(one.node, one.state) for topic in share.flow.topics for one in topic.partitions]
    state = share.flow.state
    if (share.node, state) not in placed and any(one == state and node != share.node for node, one in placed):
        return TaskState.RUNNING
    return state


def _tasks(chief: Share, shares: Sequence[Share], silent: Collection[str]) -> Iterator[TaskShape]:
    listed = {task.id: task for task in chief.flow.tasks}
    if not chief.leads:
        listed = {task.id: task for share in shares for task in share.flow.tasks}
        for member in chief.flow.members:
            if member.node in silent:
                listed |= {id: _of_member(id, member.node) for id in member.tasks if id not in listed}
    running: dict[str, dict[str, TaskShape]] = {}
    for share in shares:
        for task in share.flow.tasks:
            if task.node == share.node:
                running.setdefault(task.id, {})[share.node] = task
    for id, task in listed.items() if chief.leads else sorted(listed.items()):
        word = _word(task, running.get(id, {}))
        if word is not None:
            yield word
        else:
            yield replace(task, state=TaskState.WAITING, error=None) if task.node in silent else task


def _of_member(id: str, node: str) -> TaskShape:
    try:
        kind = TaskId.parse(id).kind.name.lower()
    except ValueError:  # a later release has another kind
        kind = "unknown"
    return TaskShape(id=id, kind=kind, node=node, state=TaskState.WAITING, error=None)


def _topics(chief: Share, shares: Sequence[Share], silent: Collection[str]) -> Iterator[TopicShape]:
    running: dict[tuple[str, int], dict[str, PartitionShape]] = {}
    for share in shares:
        for topic in share.flow.topics:
            for partition in topic.partitions:
                if partition.node == share.node:
                    running.setdefault((topic.topic, partition.partition), {})[share.node] = partition
    for topic in chief.flow.topics if chief.leads else _united(shares):
        partitions = []
        for partition in topic.partitions:
            word = _word(partition, running.get((topic.topic, partition.partition), {}))
            partitions.append(word or (_without_word(partition) if partition.node in silent else partition))
        state = TaskState.FAILED if topic.error is not None else worst(one.state for one in partitions)
        yield replace(topic, state=state, partitions=tuple(partitions))


def _united(shares: Sequence[Share]) -> list[TopicShape]:
    """All that anybody shows, while there is no leader to say which topics there are."""
    found: dict[str, TopicShape] = {}
    for share in shares:
        for topic in share.flow.topics:
            before = found.get(topic.topic, topic)
            partitions = {one.partition: one for one in (*topic.partitions, *before.partitions)}
            found[topic.topic] = replace(
                before,
                error=before.error if before.error is not None else topic.error,
                partitions=tuple(partitions[number] for number in sorted(partitions)),
            )
    return [found[name] for name in sorted(found)]


def _word(listed: One, running: Mapping[str, One]) -> One | None:
    """The word of the node that runs it. Of several: of one that has begun and not ended, which while it moves is still
    the old one; of those, of the node that is meant to run it."""
    idle = (TaskState.WAITING, TaskState.STOPPED)
    return min(running.values(), key=lambda one: (one.state in idle, one.node != listed.node, one.node), default=None)


def _without_word(partition: PartitionShape) -> PartitionShape:
    return replace(
        partition,
        state=TaskState.WAITING,
        position=-1,
        end_offset=-1,
        lag_records=-1,
        lag_seconds=0.0,
        error=None,
    )


def _reasons(chief: Share, shares: Sequence[Share], silent: Mapping[str, str]) -> Iterator[str]:
    """The chief's, those of others with their names, and why some are not seen. What others say about one of their
    tasks or topics has its place already."""
    yield from chief.flow.reasons
    others: dict[str, list[str]] = {}
    for share in shares:
        placed = placed_words(share.flow)
        for sentence in share.flow.reasons:
            if share is not chief and sentence not in chief.flow.reasons and sentence not in placed:
                others.setdefault(sentence, []).append(share.node)
    for sentence, nodes in others.items():
        yield f"on {', '.join(nodes)}: {sentence}"
    for node, why in silent.items():
        yield unseen(node, why)


def unseen(node: str, why: str) -> str:
    """The sentence about a node that could not be asked."""
    return f"what node {node} runs cannot be seen from here: {why}"


def _losses(shares: Sequence[Share]) -> tuple[LossShape, ...]:
    found: dict[tuple[str, int, int], LossShape] = {}
    for share in shares:
        for loss in share.flow.losses:
            before = found.setdefault((loss.topic, loss.partition, loss.first), loss)
            if loss.until > before.until:  # told while it was still being counted
                found[loss.topic, loss.partition, loss.first] = loss
    return tuple(found[key] for key in sorted(found))
