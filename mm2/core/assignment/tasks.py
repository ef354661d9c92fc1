"""The tasks of a flow, named as in Java (Connect's ConnectorTaskId)."""

from __future__ import annotations

import re
from dataclasses import dataclass

_JAVA_CONNECTOR = re.compile(r"Mirror(\w+)Connector")


class TaskKind:
    """The kinds of tasks in this release, by their connectors' names in Java.

    A kind can be any string, so that records of a newer release can be read. `mm2.node.flow.task_runners` lists the
    runner of each kind.
    """

    SOURCE = "MirrorSourceConnector"
    CHECKPOINT = "MirrorCheckpointConnector"
    HEARTBEAT = "MirrorHeartbeatConnector"
    ALL = (CHECKPOINT, HEARTBEAT, SOURCE)


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    """One task: a source task, a checkpoint task (some of the consumer groups), or the heartbeat task."""

    kind: str
    number: int

    def __str__(self) -> str:
        return f"{self.kind}-{self.number}"

    @property
    def label(self) -> str:
        """The kind as shown by the REST interface: source, checkpoint or heartbeat."""
        found = _JAVA_CONNECTOR.fullmatch(self.kind)
        return found[1].lower() if found else self.kind

    @classmethod
    def parse(cls, text: str) -> TaskId:
        """Read ``MirrorSourceConnector-3``; the kind can be unknown to this release. Raises ValueError."""
        kind, _, number = text.rpartition("-")
        if not (kind and number.isascii() and number.isdigit()):
            raise ValueError(f"{text!r} is not a task ID: expected CONNECTOR-NUMBER, such as MirrorSourceConnector-0")
        return cls(kind, int(number))
