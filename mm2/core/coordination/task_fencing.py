"""Java's records about the transactional IDs of source tasks, in ``mm2-configs.*`` (KIP-618).

    tasks-fencing-MirrorSourceConnector    {"task-count":4}
    commit-MirrorSourceConnector           {"tasks":2}

The first is stored before source tasks write in transactions: IDs 0 to 3 may be in use. A leader fences all of them
before source tasks of another generation start. The second ends each list of tasks that Java's leader publishes. Java
fences only if it is newer than the first record (KafkaConfigBackingStore, DistributedHerder.fenceZombieSourceTasks).

Our leader therefore stores the first, and after it, if Java has published tasks, the second with 0 tasks, as Java does
for a stopped connector. A leader of Java that takes over then publishes its tasks again, and fences ours before.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace

from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import as_int, decode_json

FENCING_KEY = b"tasks-fencing-MirrorSourceConnector"
COMMIT_KEY = b"commit-MirrorSourceConnector"

KEYS = frozenset({FENCING_KEY, COMMIT_KEY})

MOST_TASKS = 100_000
"""Larger numbers are invalid: each transactional ID is one request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFencing:
    """What these records say.

    ``task_count``: the transactional IDs below it may be in use; None: none was used yet. ``java_tasks``: the tasks
    that Java published after our last record; 0: Java has not led the flow since then.
    """

    task_count: int | None = None
    java_tasks: int = 0

    def take(self, key: bytes, value: bytes | None) -> TaskFencing:
        """Return this with one record applied. Raises FormatError."""
        if key == FENCING_KEY:
            return replace(self, task_count=None if value is None else _number(key, value, "task-count"))
        return replace(self, java_tasks=0 if value is None else _number(key, value, "tasks"))

    def covers(self, source_task: int) -> bool:
        """Return whether our leader has recorded that this source task may write in transactions."""
        return not self.java_tasks and self.task_count is not None and source_task < self.task_count

    def to_fence(self, owned: Collection[int], confirmed: Collection[int]) -> list[int]:
        """Return the source tasks whose transactional IDs a new leader has to fence before it publishes anything.

        ``owned`` have an owner among our nodes, which fences the previous one before it starts. ``confirmed`` are those
        of them whose owner has started. If Java was the leader, an owner that has not started is not enough: Java's
        task may copy partitions of other source tasks.
        """
        live = confirmed if self.java_tasks else owned
        return [source_task for source_task in range(self.task_count or 0) if source_task not in live]

    def records(self, task_count: int) -> list[tuple[bytes, bytes]]:
        """Return the records to write so that the source tasks below ``task_count`` are covered, and no others.

        After Java has led, Java's records remain until there are source tasks.
        """
        fencing = (FENCING_KEY, _encoded("task-count", task_count))
        if self.java_tasks:
            return [fencing, (COMMIT_KEY, _encoded("tasks", 0))] if task_count else []
        return [fencing] if task_count != (self.task_count or 0) else []


NO_FENCING = TaskFencing()


def _encoded(field: str, number: int) -> bytes:
    return json.dumps({field: number}, separators=(",", ":")).encode()


def _number(key: bytes, value: bytes, field: str) -> int:
    try:
        number = as_int(decode_json(value, key.decode())[field])
    except (TypeError, KeyError, AttributeError, IndexError) as error:
        raise FormatError(f"cannot read {key.decode()}: {error!r}: {value!r:.200}") from None
    if not 0 <= number <= MOST_TASKS:
        raise FormatError(f"cannot read {key.decode()}: {number} is not from 0 to {MOST_TASKS}")
    return number
