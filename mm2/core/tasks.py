"""The tasks of a flow that nodes share out among themselves, by the names Java gives them (mm2-compat §2.5, §4.1)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class TaskKind(StrEnum):
    """What a task does, by its connector's name in Java."""

    SOURCE = "MirrorSourceConnector"
    CHECKPOINT = "MirrorCheckpointConnector"
    HEARTBEAT = "MirrorHeartbeatConnector"

    @property
    def word(self) -> str:
        """As it is shown (contract: REST): source, checkpoint or heartbeat."""
        return self.name.lower()


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
