"""The tasks of a flow that nodes share out among themselves, by the names Java gives them (mm2-compat §2.5, §4.1)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class TaskKind(StrEnum):
    """What a task does, by its connector's name in Java."""

    SOURCE = "MirrorSourceConnector"
    CHECKPOINT = "MirrorCheckpointConnector"
    HEARTBEAT = "MirrorHeartbeatConnector"


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    """One task: a slot of the source connector, a share of the consumer groups, or the heartbeats."""

    kind: TaskKind
    number: int

    def __str__(self) -> str:
        return f"{self.kind}-{self.number}"

    @classmethod
    def parse(cls, text: str) -> TaskId:
        """Read ``MirrorSourceConnector-3``. Raises ValueError."""
        kind, _, number = text.rpartition("-")
        if not (number.isascii() and number.isdigit()):
            raise ValueError(f"{text!r} is no task: write a connector, a dash and a number")
        return cls(TaskKind(kind), int(number))


def share_groups(groups: Iterable[str], *, tasks_max: int) -> tuple[tuple[str, ...], ...]:
    """The consumer groups of checkpoint task 0, 1 and so on: as in Java contiguous shares of min(``tasks_max``, number
    of groups) tasks, the first ones one longer where it does not come out even. Java takes the groups as the source
    lists them; here they are sorted, so that every node and every round agree. Raises ValueError for a ``tasks_max``
    below 1."""
    if tasks_max < 1:
        raise ValueError(f"tasks.max is {tasks_max}: with less than 1 task no group is translated")
    names = sorted(set(groups))
    count = min(tasks_max, len(names))
    length, longer = divmod(len(names), count) if count else (0, 0)
    starts = [number * length + min(number, longer) for number in range(count + 1)]
    return tuple(tuple(names[start:end]) for start, end in itertools.pairwise(starts))
